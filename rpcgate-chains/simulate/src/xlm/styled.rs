//! JSON as stellar-core writes it: members sorted by name, three spaces per level, spaces around
//! the colon.

use crate::json::Json;

/// The line length into which a list has to fit.
const LINE: usize = 74;

fn plain(value: &Json) -> String {
    let mut out = String::new();
    value.write(&mut out);
    out
}

fn write(value: &Json, level: usize, out: &mut String) {
    let inner = "   ".repeat(level + 1);
    let outer = "   ".repeat(level);
    match value {
        Json::Object(members) if !members.is_empty() => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            out.push_str("{\n");
            for (index, (name, value)) in members.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ",\n" });
                out.push_str(&inner);
                out.push_str(&plain(&Json::Text(name.clone())));
                out.push_str(" : ");
                write(value, level + 1, out);
            }
            out.push('\n');
            out.push_str(&outer);
            out.push('}');
        }
        Json::Array(items) if !items.is_empty() => {
            let is_flat = items.iter().all(|item| !matches!(item, Json::Array(_) | Json::Object(_)));
            let line = format!("[ {} ]", items.iter().map(plain).collect::<Vec<_>>().join(", "));
            if is_flat && line.len() < LINE {
                out.push_str(&line);
                return;
            }
            out.push_str("[\n");
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ",\n" });
                out.push_str(&inner);
                write(item, level + 1, out);
            }
            out.push('\n');
            out.push_str(&outer);
            out.push(']');
        }
        value => value.write(out),
    }
}

/// Writes a value with a line end.
pub(crate) fn styled(value: &Json) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::object;

    #[test]
    fn members_are_sorted_by_name() {
        let list = vec![Json::from("x"), Json::from(2u64)];
        let value = object! {
            "b": object! { "c": true }, "a": list, "none": Json::Array(Vec::new()),
            "deep": vec![object! { "d": 1u64 }],
        };
        let lines = [
            "{",
            "   \"a\" : [ \"x\", 2 ],",
            "   \"b\" : {",
            "      \"c\" : true",
            "   },",
            "   \"deep\" : [",
            "      {",
            "         \"d\" : 1",
            "      }",
            "   ],",
            "   \"none\" : []",
            "}",
            "",
        ];
        assert_eq!(styled(&value), lines.join("\n"));
    }
}
