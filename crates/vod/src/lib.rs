//! Video on demand: recordings, and MP4 and FLV files, of this machine and of other servers, played
//! by ranges, by HLS and by DASH without being rewritten.
//!
//! ```text
//! names.rs: path of a request --> Library: source.rs opens, cache.rs keeps what is known
//!     film.rs: index of a file (samples.rs: mp4, flv.rs) --> cut.rs: segments
//!         --> playlists (hls), heads of fragments (cmaf)
//!     body.rs: those heads, and ranges of the file, piece by piece
//! ```
//!
//! What a file consists of is decided without a socket or a clock (`names.rs`, `query.rs`, `cut.rs`,
//! `film.rs`). [`Library`] reads files on tokio's blocking threads, of which it uses a limited number: a disk
//! or a server that hangs holds up those who ask for its files. Who may play what, and HTTP, are the business
//! of `control`.
//!
//! Files may lie. What contradicts itself is refused with a reason, and memory is bounded by
//! [`settings::VodSettings`], whatever an index declares.

mod body;
mod cache;
mod cut;
mod error;
mod film;
mod flv;
mod library;
mod list;
pub mod names;
pub mod query;
mod samples;
pub mod settings;
mod source;

pub use body::MediaBody;
pub use error::VodError;
pub use film::{Film, FilmInput};
pub use library::{Answer, Library, Slot, VodStatus};
pub use list::{Item, ItemKind, Listed, Listing};
