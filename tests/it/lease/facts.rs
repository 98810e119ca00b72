//! What the ledger's functions promise of a real server.
