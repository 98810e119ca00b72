//! Settings from outside: what the command line and the environment name.
//!
//! Invariant: no two settings have the same name, unless the command line itself names it twice.

/// A setting from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub(super) element: String,
    /// `None` if the setting is the element's text.
    pub(super) attribute: Option<String>,
    pub(super) value: String,
    pub(super) origin: String,
}

/// All settings from outside. The command line and the environment never both give the same
/// setting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    settings: Vec<Setting>,
}

impl Setting {
    /// A setting of a known name, such as `workers` or `data.dir`. `origin` is its source, as a
    /// message names it.
    pub fn named(name: &str, value: &str, origin: &str) -> Setting {
        let (element, attribute) = match name.split_once('.') {
            None => (name, None),
            Some((element, attribute)) => (element, Some(attribute.to_owned())),
        };
        let (element, value, origin) = (element.to_owned(), value.to_owned(), origin.to_owned());
        Setting { element, attribute, value, origin }
    }

    /// Its name, such as `workers` or `data.dir`.
    pub fn name(&self) -> String {
        match &self.attribute {
            None => self.element.clone(),
            Some(attribute) => format!("{}.{attribute}", self.element),
        }
    }

    /// Its value, not yet checked.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The option or variable that it comes from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    fn is_named_as(&self, other: &Setting) -> bool {
        self.element == other.element && self.attribute == other.attribute
    }
}

impl Settings {
    /// The settings of the command line, and those of the environment that the command line does
    /// not name.
    pub fn new(arguments: Vec<Setting>, environment: Vec<Setting>) -> Settings {
        let mut settings = arguments;
        let is_named = |setting: &Setting| settings.iter().any(|other| setting.is_named_as(other));
        let mut others = environment;
        others.retain(|setting| !is_named(setting));
        settings.extend(others);
        Settings { settings }
    }

    /// All of the settings.
    pub fn iter(&self) -> std::slice::Iter<'_, Setting> {
        self.settings.iter()
    }

    /// The settings as text for [`Settings::from_text`].
    pub(crate) fn to_text(&self) -> String {
        // Neither arguments nor variables can hold a NUL.
        let parts = |it: &Setting| format!("{}\0{}\0{}\0", it.name(), it.value, it.origin);
        self.iter().map(parts).collect()
    }

    /// Reads what [`Settings::to_text`] wrote. `None` if the text is something else.
    pub(crate) fn from_text(text: &str) -> Option<Settings> {
        let mut parts = text.split_terminator('\0');
        let mut settings = Vec::new();
        while let Some(name) = parts.next() {
            settings.push(Setting::named(name, parts.next()?, parts.next()?));
        }
        Some(Settings { settings })
    }
}
