"""The HTTP routes, by what they are about; stannary.wire lists them all."""
