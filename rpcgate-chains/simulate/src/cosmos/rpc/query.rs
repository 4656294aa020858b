//! Queries over events: conditions joined by AND (CometBFT, "Query language" of the event subscription).

/// The longest query, in bytes.
const LONGEST: usize = 512;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct EventQuery(Vec<EventCondition>);

#[derive(Debug, Clone, PartialEq)]
struct EventCondition {
    /// `type.attribute`.
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq)]
enum Operator {
    Exists,
    Contains(String),
    Equals(String),
    /// The number at the start of the value is compared.
    Number(Comparison, f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

const COMPARISONS: [(&str, Comparison); 5] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

/// Strips a whole word from the front of the text.
fn word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(word)?;
    (!rest.starts_with(|c: char| c.is_alphanumeric() || c == '.' || c == '_')).then(|| rest.trim_start())
}

/// Strips a quoted text from the front.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (inside, rest) = text.strip_prefix('\'')?.split_once('\'')?;
    Some((inside, rest.trim_start()))
}

/// Returns the number at the start of a value, as amounts have one before their denomination.
fn leading_number(value: &str) -> Option<f64> {
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    value.get(..end)?.parse().ok()
}

impl EventQuery {
    /// Reads a query. An error is the reason why it is invalid.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err("maximum query length exceeded".into());
        }
        let wrong = |rest: &str| format!("failed to parse query: parse error at \"{rest}\"");
        let mut conditions = Vec::new();
        let mut rest = text.trim();
        loop {
            let end = rest.find(|c: char| c.is_whitespace() || "=<>'".contains(c)).unwrap_or(rest.len());
            let (key, after) = rest.split_at(end);
            if key.is_empty() {
                return Err(wrong(rest));
            }
            let after = after.trim_start();
            let (operator, after) = EventCondition::operator(after).ok_or_else(|| wrong(after))?;
            conditions.push(EventCondition { key: key.to_owned(), operator });
            if after.is_empty() {
                return Ok(EventQuery(conditions));
            }
            rest = word(after, "AND").ok_or_else(|| wrong(after))?;
        }
    }

    /// Reports whether all conditions hold for the attributes of an event. An attribute may have several values.
    pub(super) fn holds(&self, attributes: &[(String, String)]) -> bool {
        self.0.iter().all(|condition| {
            let values = attributes.iter().filter(|(key, _)| *key == condition.key);
            values.into_iter().any(|(_, value)| condition.operator.holds(value))
        })
    }
}

impl EventCondition {
    fn operator(text: &str) -> Option<(Operator, &str)> {
        if let Some(rest) = word(text, "EXISTS") {
            return Some((Operator::Exists, rest));
        }
        if let Some(rest) = word(text, "CONTAINS") {
            let (value, rest) = quoted(rest)?;
            return Some((Operator::Contains(value.to_owned()), rest));
        }
        let (comparison, rest) =
            COMPARISONS.iter().find_map(|(sign, one)| Some((*one, text.strip_prefix(sign)?.trim_start())))?;
        if comparison == Comparison::Equal
            && let Some((value, rest)) = quoted(rest)
        {
            return Some((Operator::Equals(value.to_owned()), rest));
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (number, rest) = rest.split_at(end);
        Some((Operator::Number(comparison, number.parse().ok()?), rest.trim_start()))
    }
}

impl Operator {
    fn holds(&self, value: &str) -> bool {
        match self {
            Operator::Exists => true,
            Operator::Contains(part) => value.contains(part.as_str()),
            Operator::Equals(whole) => value == whole,
            Operator::Number(comparison, number) => {
                let Some(value) = leading_number(value) else { return false };
                match comparison {
                    Comparison::Less => value < *number,
                    Comparison::LessOrEqual => value <= *number,
                    Comparison::Equal => value == *number,
                    Comparison::GreaterOrEqual => value >= *number,
                    Comparison::Greater => value > *number,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(query: &str) -> bool {
        let attribute = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let attributes = [
            attribute("tm.event", "Tx"),
            attribute("tx.height", "29100005"),
            attribute("transfer.amount", "150uatom"),
            attribute("transfer.sender", "cosmos1a"),
            attribute("transfer.sender", "cosmos1b"),
        ];
        EventQuery::read(query).expect("a query").holds(&attributes)
    }

    #[test]
    fn all_conditions_must_match_for_some_value_of_their_attribute() {
        for query in [
            "tm.event='Tx'",
            "tm.event = 'Tx' AND transfer.sender='cosmos1b'",
            "tx.height=29100005 AND tx.height>=29100005 AND tx.height <= 29100005",
            "transfer.amount > 149 AND transfer.amount<151",
            "transfer.sender EXISTS",
            "transfer.sender CONTAINS 'mos1'AND tm.event='Tx'",
        ] {
            assert!(holds(query), "{query}");
        }
        for query in [
            "tm.event='NewBlock'",
            "tm.event='Tx' AND transfer.sender='cosmos1c'",
            "tx.height > 29100005",
            "transfer.recipient EXISTS",
            "transfer.sender > 5",
            "transfer.sender CONTAINS 'juno'",
        ] {
            assert!(!holds(query), "{query}");
        }
    }

    #[test]
    fn an_invalid_query_is_refused() {
        let long = format!("a='{}'", "x".repeat(LONGEST));
        for text in
            ["", "a", "a=", "a='b", "='b'", "a='b' OR c='d'", "a='b' AND", "a>'b'", "a CONTAINS b", &long]
        {
            assert!(EventQuery::read(text).is_err(), "{text}");
        }
    }
}
