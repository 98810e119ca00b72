//! The admin plane: its calls, and the clients that make them.

mod attack;
mod calls;
mod changes;
mod clients;
mod health;
mod history;
mod peers;
mod refused;
