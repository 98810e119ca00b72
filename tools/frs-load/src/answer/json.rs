//! Answers in JSON.
//!
//! Invariant: only a document of the protocol's shape is accepted, with each member of its type.

use serde_json::{Map, Value as Json};

use super::said::{RequestError, Said, Value};

/// Passes each item of a response to `judge`.
pub fn read_items(
    body: &[u8],
    mut judge: impl FnMut(&Said<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let document = read(body)?;
    let items = only(&document, "items")?.as_array().ok_or("items are no array")?;
    for item in items {
        let mut said = Said::default();
        for (name, value) in item.as_object().ok_or("an item is no object")? {
            said.take(name, Value::Json(value))?;
        }
        judge(&said)?;
    }
    Ok(())
}

/// The error of the whole request.
pub fn read_error(body: &[u8]) -> Result<RequestError, String> {
    let document = read(body)?;
    let error = only(&document, "error")?;
    let word = |name| error[name].as_str().map(str::to_owned);
    match (word("code"), word("message")) {
        (Some(code), Some(words)) => Ok(RequestError { code, words }),
        _ => Err("error without code or message".to_owned()),
    }
}

fn read(body: &[u8]) -> Result<Map<String, Json>, String> {
    serde_json::from_slice(body).map_err(|error| format!("no JSON: {error}"))
}

/// The only member.
fn only<'j>(document: &'j Map<String, Json>, name: &str) -> Result<&'j Json, String> {
    let mut members = document.iter();
    match (members.next(), members.next()) {
        (Some((found, value)), None) if found == name => Ok(value),
        _ => Err(format!("expected the member {name} alone")),
    }
}
