//! The policies: their cases by name, and all of them against simple models.

mod calendar;
mod calls;
mod cases;
mod changes;
mod history;
mod model;
mod published;
mod record;
mod sliding;
mod token;
