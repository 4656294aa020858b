//! Times in form fields, as browsers write them: `2026-11-19T14:26`, in UTC.

use super::form::FieldList;
use rpcgate_core::clock::Time;
use rpcgate_management::error::ActionError;
use rpcgate_management::shape::moment::Moment;

/// Reads the time in the field `name`; `None` if it is empty.
///
/// # Errors
/// [`ActionError::Invalid`] for any other text.
pub(super) fn time_field(fields: &FieldList, name: &'static str) -> Result<Option<Time>, ActionError> {
    let Some(text) = fields.filled(name) else { return Ok(None) };
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text).replace(' ', "T");
    let moment = match text.len() {
        16 => Moment::parse(&format!("{text}:00Z")),
        _ => Moment::parse(&format!("{text}Z")),
    };
    let wrong = || ActionError::field(name, "enter a time, such as 2026-11-19T14:26, in UTC");
    moment.map(|Moment(time)| Some(time)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_with_and_without_seconds_and_in_utc() {
        let read = |text: &str| {
            let query = form_urlencoded::Serializer::new(String::new()).append_pair("from", text).finish();
            time_field(&FieldList::of(&query).unwrap(), "from").ok()
        };
        let minute = Time::from_secs(1_795_098_360);
        for text in ["2026-11-19T14:26", "2026-11-19T14:26:00", "2026-11-19 14:26", "2026-11-19T14:26Z"] {
            assert_eq!(read(text), Some(Some(minute)), "{text}");
        }
        assert_eq!(read("2026-11-19T14:26:05.5"), Some(Some(Time::from_micros(1_795_098_365_500_000))));
        assert_eq!(read(" "), Some(None));
        for wrong in ["yesterday", "2026-11-19", "2026-02-30T14:26", "14:26", "2026-11-19T14:26+02:00"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
