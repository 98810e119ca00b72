//! What one courier does, step by step.
