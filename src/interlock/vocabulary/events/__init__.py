"""Events: the envelope, every payload type with its audience, and the codec."""
