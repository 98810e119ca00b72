//! docs/openapi.yaml agrees with the code, and with the answers of a server.

mod asked;
mod code;
mod document;
