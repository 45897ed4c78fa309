//! What seeds have found, each by the seed that found it.

use sim::swarm::Config;
use worker_api::settings::UdpBackend;

/// What a seed stood for when there were no strangers, no storms of RTCP and no layers.
fn without_strangers(seed: u64) -> Config {
    Config {
        strangers: 0,
        storms: 0,
        layers: 0,
        shared_layers: 0,
        roams: false,
        has_small_caches: false,
        backlog: None,
        ..Config::of(seed)
    }
}

/// What a seed stood for when servers were no nodes of a cluster.
fn without_cluster(seed: u64) -> Config {
    Config { shared: 0, ..without_strangers(seed) }
}

/// What a seed stood for when workers had one port, no player paused and networks joined nothing.
fn with_one_port(seed: u64) -> Config {
    let mut config = Config { ports: 1, pauses: 0, clumps: 0, ..without_cluster(seed) };
    config.settings.rtc.udp_backend = UdpBackend::Auto;
    let faults = &mut config.faults;
    (faults.coalesce, faults.refuse_run, faults.no_memory, faults.late_room) = (0.0, 0.0, 0.0, 0.0);
    config
}

fn finds_nothing(seed: u64, config: &Config) {
    let violations = config.run(false).violations;
    assert!(violations.is_empty(), "make sim SEED={seed}: {violations:?}");
}

/// The first player on a worker that is not the home of the stream got audio at once, and pictures later.
#[test]
fn a_player_far_from_the_home_begins_with_a_key_frame() {
    for seed in [9, 19, 47] {
        // With the clients that there were when these seeds found it.
        finds_nothing(seed, &Config { bridged: 0, internal: 0, operator: None, ..with_one_port(seed) });
    }
}

/// What a ring to another worker had no room for was gone, headers too: players there got audio of a bridge
/// without one. Only small rings are ever full here, and publishers that send in lots.
#[test]
fn a_header_that_a_ring_had_no_room_for_comes_before_what_needs_it() {
    for seed in [114, 126, 411] {
        finds_nothing(seed, &with_one_port(seed));
    }
}

/// A publisher sent headers and nothing else, and another took over: its headers and frames had earlier
/// times.
#[test]
fn time_goes_on_from_headers_without_frames() {
    finds_nothing(309, &with_one_port(309));
}

/// Who left a stream of another worker and came back at once was taken to have missed frames, although none
/// had come in between, and got no pictures up to the next key frame.
#[test]
fn who_comes_back_at_once_has_missed_nothing() {
    for seed in [231, 239, 355] {
        finds_nothing(seed, &with_one_port(seed));
    }
}

/// Without a cache, the key frame that a player waited for was dropped before the player was served the next
/// time, whenever a segment of the log was full in between.
#[test]
fn the_key_frame_that_a_player_waits_for_is_kept_until_it_has_it() {
    finds_nothing(5177, &with_one_port(5177));
}

/// A viewer was answered with audio and video. The bridge that began for it could not transcode the audio, so
/// that the stream had only video left, and the viewer was taken to play a second track of video.
#[test]
fn a_viewer_gets_the_video_of_a_stream_whose_audio_cannot_be_transcoded() {
    finds_nothing(53, &with_one_port(53));
}

/// A publisher took a stream over on a worker that had viewers of it. What had come from the old home within
/// the same turn went into the bridge that began there as well: players got a frame of audio twice.
#[test]
fn what_came_before_a_publisher_is_not_bridged_again() {
    finds_nothing(8114, &with_one_port(8114));
}

/// Two packets of a publisher had changed places, and the viewer asked for the one that was missing. Its
/// repetition came behind the first packets of the next publication.
#[test]
fn a_repetition_may_come_when_the_next_publication_has_begun() {
    finds_nothing(5868, &Config { pauses: 0, ..without_cluster(5868) });
}

/// A publisher on a slow line fell silent with eleven seconds of bytes on their way, which the server went on
/// to hear.
#[test]
fn a_publisher_is_silent_once_its_last_byte_has_arrived() {
    finds_nothing(8897, &with_one_port(8897));
}

/// A client had sent two requests at once, and waited for 16 s until there was a descriptor for it. Between
/// the answers to the two, the second was taken to be late.
#[test]
fn requests_are_answered_in_time_from_when_a_worker_accepts_their_connection() {
    finds_nothing(9852, &with_one_port(9852));
}

/// The first player on a worker joined before the group of pictures had come from the home of the stream. All
/// of it at once was more than twice what a player may be behind by, and the player was thrown out.
#[test]
fn a_player_that_begins_with_a_long_gop_is_not_thrown_out() {
    finds_nothing(39, &without_cluster(39));
}

/// Players there wait for no publisher, and one of them came on another worker than the publisher's. The home
/// had not answered yet when deadlines were looked at, and the player was ended for want of a publisher.
#[test]
fn a_player_waits_for_what_another_worker_publishes() {
    finds_nothing(14231, &without_cluster(14231));
}

/// Bridges were off, and a player by RTMP came in the half second between a publisher by WebRTC that never
/// connected and the next one. It was taken to wait for that one, and not for one that sends frames.
#[test]
fn without_bridges_a_publisher_by_webrtc_is_none_for_players_of_frames() {
    finds_nothing(18347, &without_cluster(18347));
}

/// A node began with a key frame whose first packet came behind some of the pictures that follow
/// it. What came before it is not shown, and a viewer there was taken to lack what it cannot get.
#[test]
fn a_node_that_begins_out_of_order_shows_whole_pictures_from_the_next_key_frame_on() {
    for seed in [20_040, 20_631] {
        finds_nothing(seed, &without_strangers(seed));
    }
}

/// A rival on another node had taken the stream over, and links broke: a viewer where it was
/// published at first was taken to be on the node of its publisher.
#[test]
fn a_viewer_is_far_from_a_publisher_that_took_the_stream_to_another_node() {
    for seed in [41_276, 41_950, 42_016] {
        finds_nothing(seed, &without_strangers(seed));
    }
}

/// A publisher by WebRTC vanished, and a player by RTMP waited for as long as consent may be missing.
#[test]
fn a_publisher_by_webrtc_is_gone_when_its_consent_is() {
    finds_nothing(70_421, &without_strangers(70_421));
}

/// A node let a stream go a moment after a viewer had come, and fetched it again: the viewer got the group of
/// pictures twice, as that of two publications.
#[test]
fn a_stream_that_a_node_let_go_begins_again_there() {
    finds_nothing(50_037, &without_strangers(50_037));
}

/// A worker with a viewer stood still while a publisher on another one took the stream over. It had
/// packets of both then, and sent the audio of the new publication before the video of the old one,
/// as it does with all audio: the viewer was taken to get the old publication a second time. And
/// what there was of the new one's video began without a key frame, which the ring between the two
/// workers had had no room for.
#[test]
fn audio_of_a_publication_may_come_before_the_last_video_of_the_one_before() {
    finds_nothing(102_031, &without_strangers(102_031));
}

/// A key frame and what came with it were more than new viewers are kept: it was given up before
/// those who had waited for it could begin with it, and so was every other one.
#[test]
fn who_waits_for_a_key_frame_gets_it_however_long_it_is() {
    finds_nothing(20_773, &Config::of(20_773));
}

/// A bridge gave out audio, and then a key frame that was captured before it. A player that was too slow had
/// got the audio, began again at the key frame, and the header of its audio went back to that one's time.
#[test]
fn headers_of_audio_do_not_go_back_where_a_player_begins_again() {
    finds_nothing(10_652, &Config::of(10_652));
}

/// Servers stopped. In one turn a player that had been too slow went on at a key frame, got all
/// that there was and was ended: what it had missed was looked at only where players were still
/// there behind the turn.
#[test]
fn what_a_player_has_missed_is_counted_in_the_turn_in_which_it_is_ended() {
    finds_nothing(17_604, &Config::of(17_604));
}

/// A rule or an actor was wrong: one was a player that left before its WebSocket was opened, and sent a close
/// frame, which the server took for another request; two were viewers that had moved, and were kicked before
/// the server knew.
#[test]
fn what_rules_and_actors_were_wrong_about_stays_right() {
    for seed in [2_207, 3_746, 4_909] {
        finds_nothing(seed, &with_one_port(seed));
    }
    for seed in [14_730, 18_731] {
        finds_nothing(seed, &Config::of(seed));
    }
}

/// A key frame of the best layer was overtaken by pictures of the layer that was forwarded, and a player by
/// HTTP-FLV went back by one or two, in time that goes on. The rule allowed the same picture again, no more.
#[test]
fn a_layer_may_begin_some_pictures_earlier() {
    for seed in [1065, 1575, 2917] {
        finds_nothing(seed, &Config::of(seed));
    }
}

/// A packet came too late for the main output, which had that layer since a moment ago, and not for viewers who had
/// chosen the layer before: theirs waited until another packet came.
#[test]
fn what_is_late_for_all_others_is_forwarded_to_who_had_the_layer() {
    finds_nothing(3386, &Config::of(3386));
}

/// When a link was back, its node was sent what it lacked, and with that a key frame, 7 s old, of a layer that it
/// had left out: a player by RTMP went back for a moment.
#[test]
fn a_link_that_is_back_may_bring_layers_that_were_left_out() {
    finds_nothing(3951, &Config::of(3951));
}

/// A node that came was sent a stream from the key frame of a layer that was off, older than the key that it had.
#[test]
fn a_layer_that_was_off_may_begin_before_the_key_of_a_new_node() {
    finds_nothing(4829, &Config::of(4829));
}
