"""The whole loop on one machine: every role in a process of its own, honest and dishonest."""
