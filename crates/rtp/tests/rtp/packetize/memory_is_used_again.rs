//! Once a slab has held a frame, the next ones up to that size lie in the same memory; a huge one
//! does not keep its own.

use rtp::packetize::{PacketSlab, Sender, vp9};

use crate::packetize::noise;

#[test]
fn the_next_frame_lies_where_the_last_one_was() {
    let mut slab = PacketSlab::default();
    let mut sender = Sender::new(1, 0);
    let frame = noise(200_000, 0);
    let mut cut = |slab: &mut PacketSlab, frame: &[u8]| {
        let mut writer = sender.frame(99, 0, slab);
        vp9::packetize(frame, 0, true, 1_200, &mut writer);
        writer.end_frame(true);
        slab.iter().next().unwrap().1.as_ptr()
    };
    let first = cut(&mut slab, &frame);
    for len in [200_000, 1, 199_999, 30_000] {
        slab.clear();
        assert!(slab.is_empty());
        assert_eq!(cut(&mut slab, &frame[..len]), first, "{len} bytes");
    }
    slab.clear();
    cut(&mut slab, &noise(8 << 20, 0));
    slab.clear();
    assert!(slab.memory_bytes() <= 1 << 20, "{} bytes kept", slab.memory_bytes());
    assert!(slab.memory_bytes() >= 200_000);
}
