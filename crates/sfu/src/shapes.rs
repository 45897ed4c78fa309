//! Which shapes a stream's viewers have, and which of these have templates.
//!
//! All that makes a shape is chosen by the viewers' offers, so each viewer could have one of its own, and a template for
//! each packet and shape would be memory without a bound. So templates are made for few shapes, those that most viewers
//! have; for viewers of others the header is written each time, which costs them some tens of nanoseconds more.

use super::shape::Shape;

/// Shapes in use, and which of them have templates.
///
/// A shape of a single viewer has none: its header is written once either way. When more than [`TEMPLATED_MAX`] are
/// shared, one that many have takes the place of one that few have.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    shapes: Vec<Entry>,
    /// For each template of a packet the number of its shape.
    templated: Vec<Option<u16>>,
}

#[derive(Debug)]
struct Entry {
    shape: Shape,
    users: u32,
    /// Place of its template among those of a packet; [`UNTEMPLATED`] without.
    place: u8,
}

/// Shapes with templates, of one stream. Browsers and their versions make a handful.
pub(crate) const TEMPLATED_MAX: usize = 32;
/// No place among the templates.
const UNTEMPLATED: u8 = u8::MAX;

impl Shapes {
    /// Whether `more` viewers' tracks can have a shape, even if each has its own.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.shapes.len() + more <= usize::from(u16::MAX)
    }

    /// The number of a shape for one more viewer. The caller has asked whether there is room.
    pub(crate) fn acquire(&mut self, shape: Shape) -> u16 {
        let known = self.shapes.iter().position(|known| known.users > 0 && known.shape == shape);
        let unused = || self.shapes.iter().position(|known| known.users == 0);
        let at = match known.or_else(unused) {
            Some(at) => at,
            None => {
                self.shapes.push(Entry { shape: shape.clone(), users: 0, place: UNTEMPLATED });
                self.shapes.len() - 1
            }
        };
        let entry = &mut self.shapes[at];
        if entry.users == 0 {
            entry.shape = shape;
        }
        entry.users += 1;
        self.consider(at);
        at as u16
    }

    /// One viewer less has this shape.
    pub(crate) fn release(&mut self, at: u16) {
        let Some(entry) = self.shapes.get_mut(usize::from(at)) else { return };
        entry.users = entry.users.saturating_sub(1);
        if entry.users < SHARED && entry.place != UNTEMPLATED {
            self.templated[usize::from(entry.place)] = None;
            entry.place = UNTEMPLATED;
            let waiting = self.shapes.iter().enumerate().filter(|(_, other)| other.place == UNTEMPLATED);
            if let Some((next, _)) = waiting.max_by_key(|(_, other)| other.users) {
                self.consider(next);
            }
        }
        while self.templated.last().is_some_and(Option::is_none) {
            self.templated.pop();
        }
        while self.shapes.last().is_some_and(|last| last.users == 0) {
            self.shapes.pop();
        }
    }

    /// Gives a shape a place among the templates, if it is shared and there is one, or one it deserves more.
    fn consider(&mut self, at: usize) {
        let Entry { users, place, .. } = self.shapes[at];
        if users < SHARED || place != UNTEMPLATED {
            return;
        }
        let users_at = |place: &Option<u16>| place.map_or(0, |held| self.shapes[usize::from(held)].users);
        let least = self.templated.iter().enumerate().min_by_key(|(_, place)| users_at(place));
        let place = match least {
            Some((place, None)) => place,
            _ if self.templated.len() < TEMPLATED_MAX => {
                self.templated.push(None);
                self.templated.len() - 1
            }
            // Twice as many, so that two of a size do not change places with everybody who comes.
            Some((place, Some(held))) if users_at(&Some(*held)) < users / 2 => place,
            _ => return,
        };
        if let Some(held) = self.templated[place].replace(at as u16) {
            self.shapes[usize::from(held)].place = UNTEMPLATED;
        }
        self.shapes[at].place = place as u8;
    }

    pub(crate) fn get(&self, at: u16) -> Option<&Shape> {
        self.shapes.get(usize::from(at)).map(|entry| &entry.shape)
    }

    /// Place of the shape's template among those of a packet; not below [`Shapes::templates`] if it has none.
    #[inline]
    pub(crate) fn place(&self, at: u16) -> usize {
        self.shapes.get(usize::from(at)).map_or(usize::from(UNTEMPLATED), |entry| usize::from(entry.place))
    }

    /// Templates a packet has.
    #[inline]
    pub(crate) fn templates(&self) -> usize {
        self.templated.len()
    }

    /// The shape of each template of a packet.
    pub(crate) fn templated(&self) -> impl Iterator<Item = Option<&Shape>> {
        self.templated.iter().map(|held| self.get((*held)?))
    }
}

/// Viewers from which on a template is worth it.
const SHARED: u32 = 2;

#[cfg(test)]
mod tests {
    use rtp::extension::{ExtensionMap, Form};
    use rtp::payload::MediaKind;

    use super::super::inputs::{TrackIndex, ViewerTrackInput};
    use super::*;

    fn shape(mid: usize) -> Shape {
        Shape::new(&ViewerTrackInput {
            track: TrackIndex::new(MediaKind::Video, 0).expect("the first"),
            ssrc: 1,
            rtx_ssrc: None,
            mid: mid.to_string(),
            payloads: Vec::new(),
            extensions: ExtensionMap::new(),
            form: Form::OneByte,
            nack: false,
        })
    }

    fn has_template(shapes: &Shapes, at: u16) -> bool {
        let place = shapes.place(at);
        let of_place = shapes.templated().nth(place).flatten();
        assert!(of_place.is_none_or(|of_place| Some(of_place) == shapes.get(at)), "its own or none");
        place < shapes.templates()
    }

    #[test]
    fn templates_are_for_shapes_that_are_shared_and_for_those_most_have() {
        let mut shapes = Shapes::default();
        let alone = shapes.acquire(shape(0));
        assert!(!has_template(&shapes, alone) && shapes.templates() == 0);
        assert_eq!(shapes.acquire(shape(0)), alone);
        assert!(has_template(&shapes, alone) && shapes.templates() == 1);
        let others: Vec<u16> =
            (1..100).map(|mid| [shapes.acquire(shape(mid)), shapes.acquire(shape(mid))][0]).collect();
        assert_eq!(shapes.templates(), TEMPLATED_MAX);
        let with = |shapes: &Shapes| others.iter().filter(|at| has_template(shapes, **at)).count();
        assert_eq!(with(&shapes), TEMPLATED_MAX - 1);
        // One that came late becomes common.
        let common = others[98];
        assert!(!has_template(&shapes, common));
        for _ in 0..10 {
            shapes.acquire(shape(99));
        }
        assert!(has_template(&shapes, common));
        assert_eq!(
            (shapes.templates(), with(&shapes)),
            (TEMPLATED_MAX, TEMPLATED_MAX - usize::from(has_template(&shapes, alone)))
        );
    }

    #[test]
    fn a_place_among_the_templates_that_gets_free_is_given_on_and_all_end_with_the_last_viewer() {
        let mut shapes = Shapes::default();
        let all: Vec<u16> = (0..200).map(|at| shapes.acquire(shape(at / 4))).collect();
        assert_eq!(shapes.templates(), TEMPLATED_MAX);
        let last = all[199];
        assert!(!has_template(&shapes, last));
        for gone in &all[..72] {
            shapes.release(*gone);
        }
        assert_eq!(shapes.templates(), TEMPLATED_MAX, "32 that are shared are left");
        assert!(all[72..].iter().all(|at| has_template(&shapes, *at)));
        for gone in &all[72..] {
            shapes.release(*gone);
        }
        assert_eq!((shapes.templates(), shapes.shapes.len()), (0, 0));
    }

    #[test]
    fn there_is_room_for_as_many_shapes_as_numbers() {
        let mut shapes = Shapes::default();
        shapes.acquire(shape(0));
        assert!(shapes.has_room(65_534) && !shapes.has_room(65_535));
    }
}
