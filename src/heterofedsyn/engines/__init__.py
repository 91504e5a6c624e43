"""What carries messages between organisations."""
