//! The page of the gateways: it names each, and its files.
