"""The trainer: turns accepted groups into the next policy step."""
