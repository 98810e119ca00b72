//! Converts elements of map.xml to JSON.

use frs_conf::element_positions;

use super::shape::{AttributeKind, JsonShape};
use crate::protocol::Format;
use crate::protocol::element_tree::{Element, Layout, Value};

/// The JSON document of a checked element.
pub fn document(tree: &element_positions::Element, shape: &'static JsonShape) -> String {
    element(tree, shape).document(Format::Json, Layout::Lines)
}

fn element(tree: &element_positions::Element, shape: &'static JsonShape) -> Element {
    let mut element = Element::new(shape.element);
    for attribute in &tree.attributes {
        if let Some((name, kind)) = shape.attribute(&attribute.name) {
            element = element.with(name, value(kind, &attribute.value));
        }
    }
    let children = shape.children.iter().flat_map(|child| {
        let named = tree.children_named(child.element);
        named.map(|tree| self::element(tree, child))
    });
    element.holding(children)
}

/// The text of a checked element has a value of its kind, surrounded at most by white space.
fn value(kind: AttributeKind, text: &str) -> Value {
    let value = match kind {
        AttributeKind::Text => None,
        AttributeKind::Whole => text.trim().parse().ok().map(Value::Number),
        AttributeKind::Decimal => text.trim().parse().ok().map(Value::Decimal),
        AttributeKind::Flag => text.trim().parse().ok().map(Value::Flag),
    };
    value.unwrap_or_else(|| Value::Text(text.to_owned()))
}
