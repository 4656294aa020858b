//! The OpenAPI 3.0.3 description of the API (specification, "Versioning").
//!
//! The handlers describe it as 3.1. Parts that 3.0 expresses differently are converted, and parts common to all
//! operations are added by rule.

use crate::route_guard::LEAST_ROLE;
use rpcgate_management::error::{ErrorBody, ErrorCode};
use serde_json::{Map, Value, json};
use utoipa::openapi::{ComponentsBuilder, Info, OpenApi, OpenApiBuilder, Server};

const VERSION: &str = "3.0.3";
const SCHEME: &str = "bearer";
/// The tag of the operations that treat an empty parameter as an absent one.
const EMPTY_IS_LEFT_OUT: &str = "usage";
/// The objects that paths name, by the end of the path before the parameter.
const PATH_OBJECTS: [(&str, &str); 25] = [
    ("attachments", "The file."),
    ("auth/passkeys", "The passkey."),
    ("auth/sessions", "The session."),
    ("auth/tokens", "The token's identifier."),
    ("chains", "The chain's path."),
    ("changes", "The change."),
    ("contracts", "The contract."),
    ("cu-weights", "The chain's path."),
    ("custom-plans", "The plan."),
    ("deliveries", "The delivery."),
    ("explain", "The value of `x-request-id`."),
    ("invitations", "The invitation."),
    ("invoices", "The number of the invoice."),
    ("keys", "The key's identifier."),
    ("limit-requests", "The request."),
    ("members", "The member."),
    ("notifications", "The notification."),
    ("operator/plans", "The plan's name."),
    ("operator/tenants", "The tenant."),
    ("projects", "The project."),
    ("subscriptions", "The subscription."),
    ("tenants", "The caller's tenant."),
    ("tickets", "The ticket."),
    ("users", "The user."),
    ("webhooks", "The endpoint."),
];
/// The path parameters that are names instead of identifiers.
const NAMES: [&str; 3] = ["chain", "number", "tier"];
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Returns a document without operations, for the API at `url`.
pub fn head(url: &str) -> OpenApi {
    let mut info = Info::new("rpcgate management API", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "Accounts, projects, API keys and usage. Every error is a JSON object with the members `error`, a text for \
         people, and `code`, a word for programs that `ErrorCode` explains; `field` names the field or the parameter \
         if one is wrong. After a response with 429 or 503, `Retry-After` is the number of seconds to wait. \
         Identifiers are UUIDs, times RFC 3339 in UTC. Lists are paged: `limit` entries per page, and if there are more, the \
         `Link` header (`rel=\"next\"`) names the next page."
            .into(),
    );
    OpenApiBuilder::new()
        .info(info)
        .servers(Some([Server::new(url)]))
        .components(Some(
            ComponentsBuilder::new().schema_from::<ErrorBody>().schema_from::<ErrorCode>().build(),
        ))
        .build()
}

/// Converts `collected` to OpenAPI 3.0.3 and adds the parts common to all operations.
pub fn finished(collected: &OpenApi) -> Value {
    // The document consists of strings, numbers and lists, which JSON can always represent.
    let mut document = serde_json::to_value(collected).unwrap_or_default();
    document["openapi"] = VERSION.into();
    if let Some(license) = document.pointer_mut("/info/license").and_then(Value::as_object_mut) {
        license.remove("identifier");
    }
    document["components"]["securitySchemes"] =
        json!({ SCHEME: { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" } });
    explain_codes(&mut document["components"]["schemas"]["ErrorCode"]);
    for (path, item) in object(&mut document["paths"]) {
        let has_id = path.contains('{');
        for (method, operation) in object(item).filter(|(method, _)| METHODS.contains(&method.as_str())) {
            name_path(operation, path);
            complete(operation, method, has_id);
        }
    }
    downgrade(&mut document["paths"]);
    downgrade(&mut document["components"]);
    document
}

/// Adds the meanings of the codes, which an enum schema cannot express.
fn explain_codes(schema: &mut Value) {
    let word = |code: &ErrorCode| serde_json::to_value(code).unwrap_or_default();
    let lines = ErrorCode::ALL.iter().map(|code| {
        let word = word(code);
        let status = code.status().as_u16();
        format!("- `{}` ({status}): {}", word.as_str().unwrap_or_default(), code.meaning())
    });
    let lines: Vec<_> = lines.collect();
    let description = schema["description"].as_str().unwrap_or_default().to_owned();
    schema["description"] = format!("{description}\n\n{}", lines.join("\n")).into();
}

fn object(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_object_mut().into_iter().flatten()
}

/// Describes the parameters of the path, except those that the operation describes itself.
fn name_path(operation: &mut Value, path: &str) {
    let mut parameters = Vec::new();
    let declared = operation["parameters"].as_array().cloned().unwrap_or_default();
    for (before, name) in path.split('}').filter_map(|part| part.split_once("/{")) {
        let object = PATH_OBJECTS.iter().find(|(end, _)| before.ends_with(end));
        let Some((_, description)) = object else { continue };
        if declared.iter().any(|parameter| parameter["name"] == name) {
            continue;
        }
        let mut schema = json!({ "type": "string" });
        if !NAMES.contains(&name) {
            schema["format"] = "uuid".into();
        }
        parameters.push(
            json!({ "name": name, "in": "path", "description": description, "required": true, "schema": schema }),
        );
    }
    parameters.extend(declared);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
}

/// Adds the parts that follow from an operation's properties.
fn complete(operation: &mut Value, method: &str, has_id: bool) {
    let least = operation[LEAST_ROLE].as_str().unwrap_or_default();
    let needs_token = least != "none";
    operation["security"] = if needs_token { json!([{ SCHEME: [] }]) } else { json!([]) };
    let has_query = operation["parameters"]
        .as_array()
        .is_some_and(|parameters| parameters.iter().any(|parameter| parameter["in"] == "query"));
    // An operation without a body refuses one that is not empty.
    let reads_body = method != "get";
    let has_condition = operation["parameters"]
        .as_array()
        .is_some_and(|parameters| parameters.iter().any(|parameter| parameter["name"] == "If-Match"));
    let creates = operation["responses"].get("201").is_some();
    if operation["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == EMPTY_IS_LEFT_OUT)) {
        let parameters = operation["parameters"].as_array_mut().into_iter().flatten();
        for parameter in parameters.filter(|parameter| parameter["in"] == "query") {
            parameter["allowEmptyValue"] = true.into();
        }
    }
    let rules = [
        (
            400,
            reads_body || has_query || has_condition,
            "The request is invalid: `field` names the field or the parameter.",
        ),
        (401, needs_token, "There is no valid token."),
        (
            403,
            needs_token,
            "The caller's role does not permit this, or a second factor is required and missing.",
        ),
        (409, creates, "The current state does not allow it: `code` says why."),
        (404, has_id, "It does not exist, or belongs to another tenant."),
        (412, has_condition, "It has been changed: `If-Match` names another version."),
        (408, reads_body, "The body took too long to arrive."),
        (413, reads_body, "The body is larger than 64 KiB."),
        (429, true, "Too many requests or attempts: `Retry-After` says when to retry."),
        (503, true, "A database is unreachable: `Retry-After` says when to retry."),
    ];
    for (status, _, description) in rules.into_iter().filter(|(_, holds, _)| *holds) {
        let answers = &mut operation["responses"][status.to_string()];
        if answers.is_null() {
            *answers = json!({ "description": description });
        }
    }
    for (status, answer) in object(&mut operation["responses"]) {
        if answer["description"].as_str().is_none_or(str::is_empty) {
            answer["description"] =
                if status.starts_with('2') { "Done." } else { "The action failed." }.into();
        }
        if status.starts_with(['4', '5']) && answer.get("content").is_none() {
            answer["content"] =
                json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } });
        }
        if matches!(status.as_str(), "429" | "503") && answer["headers"].get("Retry-After").is_none() {
            answer["headers"]["Retry-After"] = json!({
                "description": "Seconds after which the request may be retried.",
                "schema": { "type": "integer", "minimum": 0 },
            });
        }
    }
}

/// Converts the schemas in `value` to their 3.0 form.
fn downgrade(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(downgrade),
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                match name.as_str() {
                    // The names of properties are ours and may equal keywords of schemas.
                    "properties" => object(member).for_each(|(_, schema)| downgrade(schema)),
                    // The values of these keywords are data.
                    "example" | "examples" | "default" | "enum" | "const" => {}
                    _ => downgrade(member),
                }
            }
            schema(members);
        }
        _ => {}
    }
}

fn schema(members: &mut Map<String, Value>) {
    let mut nullable = false;
    if let Some(Value::Array(types)) = members.get("type") {
        nullable |= types.iter().any(|kind| kind == "null");
        let kind = types.iter().find(|kind| *kind != "null").cloned();
        members.remove("type");
        members.extend(kind.map(|kind| ("type".to_owned(), kind)));
    }
    for several in ["oneOf", "anyOf"] {
        let Some(Value::Array(options)) = members.get_mut(several) else { continue };
        let all = options.len();
        options.retain(|option| option["type"] != "null");
        nullable |= options.len() < all;
        if options.len() == 1 && all > 1 {
            let only = members.remove(several);
            members.extend(only.map(|only| ("allOf".to_owned(), only)));
        }
    }
    // Siblings of a reference are ignored.
    if members.len() > 1
        && members.get("$ref").is_some_and(Value::is_string)
        && let Some(reference) = members.remove("$ref")
    {
        members.insert("allOf".into(), json!([{ "$ref": reference }]));
    }
    if let Some(Value::Array(examples)) = members.get("examples") {
        let first = examples.first().cloned();
        members.remove("examples");
        members.extend(first.map(|first| ("example".to_owned(), first)));
    }
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(limit @ Value::Number(_)) = members.get(exclusive).cloned() {
            members.insert(bound.into(), limit);
            members.insert(exclusive.into(), true.into());
        }
    }
    // No format covers an unsigned 32-bit integer, which exceeds int32.
    if members.get("format").is_some_and(|format| format == "int32")
        && members.get("minimum").is_some_and(|least| least == 0)
    {
        members.insert("format".into(), "int64".into());
        members.entry("maximum").or_insert_with(|| u32::MAX.into());
    }
    if let Some(only) = members.remove("const") {
        members.insert("enum".into(), json!([only]));
    }
    if members.get("propertyNames").is_some_and(Value::is_object) {
        members.remove("propertyNames");
    }
    if nullable {
        members.insert("nullable".into(), true.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(schema: Value) -> Value {
        let mut schema = schema;
        downgrade(&mut schema);
        schema
    }

    #[test]
    fn schemas_have_the_form_of_openapi_3_0() {
        let reference = json!({ "$ref": "#/components/schemas/A" });
        for (new, old) in [
            (json!({ "type": ["string", "null"] }), json!({ "type": "string", "nullable": true })),
            (
                json!({ "oneOf": [{ "type": "null" }, reference] }),
                json!({ "allOf": [reference], "nullable": true }),
            ),
            (
                json!({ "anyOf": [{ "type": "null" }, { "type": "string" }, reference] }),
                json!({ "anyOf": [{ "type": "string" }, reference], "nullable": true }),
            ),
            (json!({ "examples": ["a", "b"] }), json!({ "example": "a" })),
            (
                json!({ "exclusiveMinimum": 3, "exclusiveMaximum": 9 }),
                json!({ "minimum": 3, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": true }),
            ),
            (
                json!({ "type": "integer", "format": "int32", "minimum": 0 }),
                json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": 4_294_967_295_u32 }),
            ),
            (
                json!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": 9 }),
                json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": 9 }),
            ),
            (
                json!({ "type": "integer", "format": "int32" }),
                json!({ "type": "integer", "format": "int32" }),
            ),
            (json!({ "const": "x" }), json!({ "enum": ["x"] })),
            (
                json!({ "additionalProperties": { "type": ["integer", "null"] }, "propertyNames": {} }),
                json!({ "additionalProperties": { "type": "integer", "nullable": true } }),
            ),
            (
                json!({ "$ref": "#/components/schemas/A", "description": "d" }),
                json!({ "allOf": [reference], "description": "d" }),
            ),
        ] {
            assert_eq!(put(new.clone()), old, "{new}");
        }
    }

    #[test]
    fn rules_for_bodies_and_usage_parameters_are_applied() {
        let query = json!({ "name": "from", "in": "query" });
        let mut usage = json!({ "tags": ["usage"], "parameters": [query, { "name": "id", "in": "path" }] });
        complete(&mut usage, "get", false);
        assert_eq!(
            usage["parameters"],
            json!([{ "name": "from", "in": "query", "allowEmptyValue": true }, { "name": "id", "in": "path" }])
        );
        let mut other = json!({ "tags": ["operator"], "parameters": [query], "requestBody": {} });
        complete(&mut other, "post", false);
        assert_eq!(other["parameters"], json!([query]));
        for (operation, has_body) in [(usage, false), (other, true)] {
            for status in ["408", "413"] {
                assert_eq!(operation["responses"].get(status).is_some(), has_body, "{status}: {operation}");
            }
        }
    }

    #[test]
    fn names_and_data_of_ours_are_left_as_they_are() {
        let named = json!({ "properties": { "const": { "type": ["string", "null"] }, "type": { "type": "string" } } });
        let nullable = json!({ "type": "string", "nullable": true });
        assert_eq!(put(named), json!({ "properties": { "const": nullable, "type": { "type": "string" } } }));
        let data = json!({ "example": { "const": 1 } });
        assert_eq!(put(data.clone()), data);
    }
}
