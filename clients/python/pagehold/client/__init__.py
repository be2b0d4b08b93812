"""Client of pagehold's gRPC services, and its command line."""
