//! The Lua scripts that count in Redis, the names of the keys, and the parsing of a script's answer.

use redis::{Cmd, Pipeline, ServerError, Value, cmd};
use rpcgate_core::caller::{KeyId, ProjectId};
use std::fmt::Write;

/// The seconds for which the counters of a minute, an hour and a day are kept.
pub(super) const TTL: [u64; 3] = [120, 3_900, 90_000];
/// The seconds for which a project's units are kept.
pub(super) const UNITS_TTL: u64 = 100_000;

const TEXTS: [&str; 7] = [
    include_str!("lua/take.lua"),
    include_str!("lua/reserve.lua"),
    include_str!("lua/settle.lua"),
    include_str!("lua/raise.lua"),
    include_str!("lua/beat.lua"),
    include_str!("lua/correct.lua"),
    include_str!("lua/compared.lua"),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Script {
    Take,
    Reserve,
    Settle,
    Raise,
    Beat,
    Correct,
    Compared,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Digests(Vec<String>);

impl Digests {
    pub(super) fn load() -> Pipeline {
        let mut pipe = Pipeline::with_capacity(TEXTS.len());
        for text in TEXTS {
            pipe.cmd("SCRIPT").arg("LOAD").arg(text);
        }
        pipe
    }

    /// Reads the answer to [`load`](Self::load).
    ///
    /// # Errors
    /// [`BadAnswer::Refused`] if Redis refuses to load scripts, for example without a login; [`BadAnswer::Strange`].
    pub(super) fn read(answers: Vec<Value>) -> Result<Self, BadAnswer> {
        let digests = answers.into_iter().map(|answer| match answer {
            Value::BulkString(digest) => String::from_utf8(digest).map_err(|_| BadAnswer::Strange),
            Value::SimpleString(digest) => Ok(digest),
            Value::ServerError(error) => Err(BadAnswer::Refused(reported(&error))),
            _ => Err(BadAnswer::Strange),
        });
        let digests: Vec<String> = digests.collect::<Result<_, _>>()?;
        if digests.len() == TEXTS.len() { Ok(Digests(digests)) } else { Err(BadAnswer::Strange) }
    }

    /// Returns a command that runs `script` on `keys` keys. The caller appends keys and arguments.
    pub(super) fn run(&self, script: Script, keys: usize) -> Cmd {
        let digest = self.0.get(script as usize).map_or("", String::as_str);
        let mut command = cmd("EVALSHA");
        command.arg(digest).arg(keys);
        command
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Names {
    pub(super) prefix: String,
}

impl Names {
    /// The era: the time of Redis when the counters were seeded. A missing or new value shows all gateways that the
    /// counters were lost.
    pub(super) fn era(&self) -> String {
        format!("{}era", self.prefix)
    }

    /// The lock of the gateway that seeds the counters.
    pub(super) fn seeding(&self) -> String {
        format!("{}seeding", self.prefix)
    }

    pub(super) fn gateways(&self) -> String {
        format!("{}gateways", self.prefix)
    }

    /// The number of remaining comparisons with the recorded usage.
    pub(super) fn comparisons(&self) -> String {
        format!("{}comparisons", self.prefix)
    }

    /// The name of the running comparison.
    pub(super) fn comparing(&self) -> String {
        format!("{}comparing", self.prefix)
    }

    /// A key that exists while no comparison may begin.
    pub(super) fn pause(&self) -> String {
        format!("{}pause", self.prefix)
    }

    /// The number of times that counters were lowered.
    pub(super) fn lowered(&self) -> String {
        format!("{}lowered", self.prefix)
    }

    /// The units that gateways have reserved and not used, as reported to a comparison.
    pub(super) fn unused(&self, comparison: &str) -> String {
        format!("{}unused:{comparison}", self.prefix)
    }

    /// The time up to which everything that each gateway counted is recorded, as reported to a comparison.
    pub(super) fn reports(&self, comparison: &str) -> String {
        format!("{}reports:{comparison}", self.prefix)
    }

    /// A receipt, which makes sending counts idempotent.
    pub(super) fn receipt(&self, gateway: u64, number: u64) -> String {
        format!("{}r:{gateway:x}:{number:x}", self.prefix)
    }

    /// A key's window; `span` is 0 for the minute, 1 for the hour, 2 for the day.
    pub(super) fn window(&self, key: KeyId, span: usize, number: u64) -> String {
        let mut name = String::with_capacity(self.prefix.len() + 48);
        // Writing to a string cannot fail.
        let _ = write!(name, "{}w:{:x}:{}{number}", self.prefix, key.0, ["m", "h", "d"][span % 3]);
        name
    }

    /// The requests of a project in a second.
    pub(super) fn second(&self, project: ProjectId, second: u64) -> String {
        format!("{}s:{:x}:{second}", self.prefix, project.0)
    }

    /// A project's units, by the hour.
    pub(super) fn units(&self, project: ProjectId) -> String {
        format!("{}u:{:x}", self.prefix, project.0)
    }
}

/// The meaning of a script's first number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Code {
    Done,
    /// The script ran too late and did nothing: no call waits for it any more.
    Late,
    /// The script did nothing: the era has changed.
    OtherEra,
    /// The limit per second is reached.
    Second,
    Window,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Answered {
    pub(super) code: Code,
    /// The time of Redis, in microseconds.
    pub(super) time: i64,
    /// The rest of the answer.
    pub(super) more: Vec<Value>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum BadAnswer {
    #[error("{0}")]
    Refused(String),
    #[error("answers what no script of ours does")]
    Strange,
}

impl Answered {
    pub(super) fn read(value: Value) -> Result<Self, BadAnswer> {
        let mut more = match value {
            Value::Array(more) => more,
            Value::ServerError(error) => return Err(BadAnswer::Refused(reported(&error))),
            _ => return Err(BadAnswer::Strange),
        };
        if more.len() < 2 {
            return Err(BadAnswer::Strange);
        }
        let rest = more.split_off(2);
        let (Some(code), Some(time)) = (number(&more[0]), number(&more[1])) else {
            return Err(BadAnswer::Strange);
        };
        let code = match code {
            0 => Code::Done,
            1 => Code::Late,
            2 => Code::OtherEra,
            3 => Code::Second,
            4 => Code::Window,
            _ => return Err(BadAnswer::Strange),
        };
        Ok(Answered { code, time, more: rest })
    }

    /// Returns the numbers of the rest from `index`; anything else counts as 0.
    pub(super) fn numbers(&self, index: usize) -> impl Iterator<Item = u64> {
        let values = self.more.get(index..).unwrap_or_default();
        values.iter().map(|value| number(value).and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
    }

    pub(super) fn text(&self, index: usize) -> &[u8] {
        match self.more.get(index) {
            Some(Value::BulkString(text)) => text,
            _ => &[],
        }
    }
}

fn reported(error: &ServerError) -> String {
    let words = [error.code(), error.details().unwrap_or_default()];
    words.join(" ").trim().to_owned()
}

/// Reads a number that Redis returned as a number or as a text.
pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_other_values_are_not() {
        let answer = Value::Array(vec![
            Value::Int(4),
            Value::Int(7),
            Value::BulkString(b"101".to_vec()),
            Value::BulkString(b"12".to_vec()),
            Value::Int(-3),
        ]);
        let answered = Answered::read(answer).unwrap();
        assert_eq!((answered.code, answered.time), (Code::Window, 7));
        assert_eq!(answered.text(0), b"101");
        assert_eq!(answered.numbers(1).collect::<Vec<_>>(), [12, 0]);
        assert_eq!(answered.numbers(9).count(), 0);
        for nonsense in [Value::Nil, Value::Array(vec![Value::Int(0)]), Value::Array(vec![Value::Nil; 2])] {
            assert_eq!(Answered::read(nonsense), Err(BadAnswer::Strange));
        }
        assert_eq!(Answered::read(Value::Array(vec![Value::Int(99); 2])), Err(BadAnswer::Strange));
    }

    #[test]
    fn a_server_that_loads_no_scripts_reports_the_reason() {
        let digests = || vec![Value::SimpleString("d".into()); TEXTS.len() - 1];
        let refused = redis::parse_redis_value(b"-NOAUTH Authentication required.\r\n").unwrap();
        let why = BadAnswer::Refused("NOAUTH Authentication required.".into());
        assert_eq!(Digests::read(digests().into_iter().chain([refused]).collect()), Err(why));
        assert_eq!(Digests::read(digests()), Err(BadAnswer::Strange));
        assert!(
            Digests::read(digests().into_iter().chain([Value::SimpleString("d".into())]).collect()).is_ok()
        );
    }

    #[test]
    fn keys_have_names_of_their_own() {
        let names = Names { prefix: "p:".into() };
        let mut all = vec![
            names.era(),
            names.seeding(),
            names.gateways(),
            names.comparisons(),
            names.comparing(),
            names.pause(),
            names.lowered(),
            names.unused("1:1"),
            names.reports("1:1"),
            names.receipt(1, 1),
            names.window(KeyId(1), 0, 1),
            names.window(KeyId(1), 1, 1),
            names.window(KeyId(1), 2, 1),
            names.window(KeyId(1), 2, 11),
            names.window(KeyId(0x11), 2, 1),
            names.second(ProjectId(1), 1),
            names.units(ProjectId(1)),
        ];
        assert!(all.iter().all(|name| name.starts_with("p:")));
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
