//! The descriptors of `.proto` files (`google/protobuf/descriptor.proto`) for reflection and command line clients.

use super::file::{EnumType, FieldKind, MessageField, MessageType, ProtoFile};
use super::protobuf::Message;

/// Encodes the files as a `FileDescriptorSet`, in order.
pub(super) fn descriptors(files: &[ProtoFile]) -> Vec<u8> {
    Message::default().items(1, files.iter().map(file)).done()
}

fn file(file: &ProtoFile) -> Message {
    let services = file.services.iter().map(|service| {
        let methods = service.methods.iter().map(|method| {
            let (input, output) = (format!(".{}", method.input), format!(".{}", method.output));
            Message::default().bytes(1, &method.name).bytes(2, input).bytes(3, output)
        });
        Message::default().bytes(1, &service.name).items(2, methods)
    });
    Message::default()
        .bytes(1, file.path)
        .bytes(2, &file.package)
        .items(3, &file.imports)
        .items(4, file.messages.iter().map(message))
        .items(5, file.enums.iter().map(enumeration))
        .items(6, services)
        .bytes(12, "proto3")
}

fn message(message_type: &MessageType) -> Message {
    Message::default()
        .bytes(1, &message_type.name)
        .items(2, message_type.fields.iter().map(field))
        .items(3, message_type.messages.iter().map(message))
        .items(4, message_type.enums.iter().map(enumeration))
}

fn enumeration(enum_type: &EnumType) -> Message {
    let values = enum_type.values.iter();
    // The field has presence, so that a value of 0 is written as well.
    let values = values.map(|(name, number)| match number {
        0 => [Message::default().bytes(1, name).done(), vec![2 << 3, 0]].concat(),
        number => Message::default().bytes(1, name).number(2, *number).done(),
    });
    Message::default().bytes(1, &enum_type.name).items(2, values)
}

fn field(field: &MessageField) -> Message {
    // The numbers of `FieldDescriptorProto.Type`.
    let (number, name) = match &field.kind {
        FieldKind::Double => (1, None),
        FieldKind::Int64 => (3, None),
        FieldKind::Uint64 => (4, None),
        FieldKind::Int32 => (5, None),
        FieldKind::Bool => (8, None),
        FieldKind::Text => (9, None),
        FieldKind::Message(name) => (11, Some(name)),
        FieldKind::Bytes => (12, None),
        FieldKind::Uint32 => (13, None),
        FieldKind::Enumeration(name) => (14, Some(name)),
    };
    Message::default()
        .bytes(1, &field.name)
        .number(3, field.number)
        .number(4, if field.is_list { 3 } else { 1 })
        .number(5, number)
        .bytes(6, name.map_or_else(String::new, |name| format!(".{name}")))
        .bytes(10, camel(&field.name))
}

/// Returns a field's name in canonical JSON, as protoc writes it into descriptors.
fn camel(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut is_start = false;
    for c in name.chars() {
        match c {
            '_' => is_start = true,
            c if is_start => {
                out.push(c.to_ascii_uppercase());
                is_start = false;
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::file::{GrpcMethod, GrpcService};
    use super::super::protobuf::{Value, fields};
    use super::*;

    fn described() -> Vec<u8> {
        let some_e = MessageField {
            name: "some_e".into(),
            number: 5,
            kind: FieldKind::Enumeration("p.E".into()),
            is_list: true,
        };
        let method = GrpcMethod { name: "Do".into(), input: "p.M".into(), output: "p.N".into() };
        descriptors(&[ProtoFile {
            path: "f.proto",
            package: "p".into(),
            imports: vec!["x.proto".into()],
            messages: vec![MessageType { name: "M".into(), fields: vec![some_e], ..MessageType::default() }],
            enums: vec![EnumType { name: "E".into(), values: vec![("A".into(), 0)] }],
            services: vec![GrpcService { name: "S".into(), methods: vec![method] }],
        }])
    }

    #[test]
    fn a_file_is_described_with_full_names() {
        let part = |bytes: &[u8], number: u64| -> Vec<u8> {
            let found = fields(bytes).unwrap();
            found.iter().find(|(n, _)| *n == number).unwrap().1.bytes().unwrap().to_vec()
        };
        let file = part(&described(), 1);
        let texts = [1, 2, 3, 12].map(|number| String::from_utf8(part(&file, number)).unwrap());
        assert_eq!(texts, ["f.proto", "p", "x.proto", "proto3"]);
        let field = part(&part(&file, 4), 2);
        let expected = [
            (1, Value::Bytes(b"some_e")),
            (3, Value::Number(5)),
            (4, Value::Number(3)),
            (5, Value::Number(14)),
            (6, Value::Bytes(b".p.E")),
            (10, Value::Bytes(b"someE")),
        ];
        assert_eq!(fields(&field).unwrap(), expected);
        let value = part(&part(&file, 5), 2);
        assert_eq!(fields(&value).unwrap(), [(1, Value::Bytes(b"A")), (2, Value::Number(0))]);
        let method = part(&part(&file, 6), 2);
        assert_eq!((part(&method, 2), part(&method, 3)), (b".p.M".to_vec(), b".p.N".to_vec()));
    }
}
