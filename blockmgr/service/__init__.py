"""The manager's gRPC process: sessions, registrations, leases, operators' questions, and the forms in which they travel."""
