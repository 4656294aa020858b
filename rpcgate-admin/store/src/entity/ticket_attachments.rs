//! Files that are attached to support tickets, without their content.

use crate::query::named::named_values;
use crate::query::{TicketAttachmentId, TicketId, UserId};
use rpcgate_core::clock::Time;
use sea_orm::entity::prelude::*;

/// The kind of a file, detected from its content. Other kinds are not stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AttachmentKind {
    /// A PNG picture.
    Png,
    /// A JPEG photograph.
    Jpeg,
    /// A GIF picture.
    Gif,
    /// A WebP picture.
    Webp,
    /// A PDF document.
    Pdf,
    /// A ZIP archive.
    Zip,
    /// A file compressed by gzip.
    Gzip,
    /// A file compressed by bzip2.
    Bzip2,
    /// A file compressed by xz.
    Xz,
    /// A file compressed by Zstandard.
    Zstd,
    /// An archive of tar.
    Tar,
    /// An archive of 7-Zip.
    SevenZip,
    /// A packet capture (pcap or pcapng).
    Capture,
    /// Text in UTF-8, which may have terminal escapes.
    Text,
    /// Text in a single-byte encoding, such as ISO 8859-1.
    ByteText,
}

impl AttachmentKind {
    /// All kinds.
    pub const ALL: [AttachmentKind; 15] = [
        AttachmentKind::Png,
        AttachmentKind::Jpeg,
        AttachmentKind::Gif,
        AttachmentKind::Webp,
        AttachmentKind::Pdf,
        AttachmentKind::Zip,
        AttachmentKind::Gzip,
        AttachmentKind::Bzip2,
        AttachmentKind::Xz,
        AttachmentKind::Zstd,
        AttachmentKind::Tar,
        AttachmentKind::SevenZip,
        AttachmentKind::Capture,
        AttachmentKind::Text,
        AttachmentKind::ByteText,
    ];

    /// Returns its name in the database and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            AttachmentKind::Png => "png",
            AttachmentKind::Jpeg => "jpeg",
            AttachmentKind::Gif => "gif",
            AttachmentKind::Webp => "webp",
            AttachmentKind::Pdf => "pdf",
            AttachmentKind::Zip => "zip",
            AttachmentKind::Gzip => "gzip",
            AttachmentKind::Bzip2 => "bzip2",
            AttachmentKind::Xz => "xz",
            AttachmentKind::Zstd => "zstd",
            AttachmentKind::Tar => "tar",
            AttachmentKind::SevenZip => "seven_zip",
            AttachmentKind::Capture => "capture",
            AttachmentKind::Text => "text",
            AttachmentKind::ByteText => "byte_text",
        }
    }
}

named_values!(AttachmentKind, "kind of file");

#[derive(Clone, PartialEq, Eq, Debug, DeriveEntityModel)]
#[sea_orm(table_name = "ticket_attachments")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub(crate) id: TicketAttachmentId,
    pub(crate) ticket_id: TicketId,
    pub(crate) user_id: UserId,
    pub(crate) name: String,
    pub(crate) kind: AttachmentKind,
    pub(crate) bytes: i64,
    pub(crate) created_at: Time,
    /// The time when the whole content was stored; until then the file is not shown.
    pub(crate) stored_at: Option<Time>,
    #[sea_orm(default_value = false)]
    pub(crate) operator: bool,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {
    #[sea_orm(
        belongs_to = "super::tickets::Entity",
        from = "Column::TicketId",
        to = "super::tickets::Column::Id"
    )]
    Ticket,
}

impl Related<super::tickets::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Ticket.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
