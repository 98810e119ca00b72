//! docs/openapi.yaml: it says what the code has, and a server answers as it says.

mod asked;
mod code;
mod document;
