"""Publishes by WHIP or plays by WHEP with GStreamer's webrtcbin, whose DTLS certificate is RSA.

usage: peer.py publish|play URL [--codec vp8|h264] [--frames N] [--seconds N]

Publishing: a test picture and a tone until standard input ends. Playing: until N pictures and as many pieces of audio are
decoded. Needs Debian's python3-gst-1.0, gstreamer1.0-nice, -plugins-base, -good, -bad and gir1.2-gst-plugins-bad-1.0.
"""

import argparse
import json
import sys
import threading
import time
import urllib.parse
import urllib.request

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstSdp", "1.0")
gi.require_version("GstWebRTC", "1.0")
from gi.repository import GLib, Gst, GstSdp, GstWebRTC  # noqa: E402

ENCODERS = {
    "vp8": "vp8enc deadline=1 keyframe-max-dist=25 ! rtpvp8pay picture-id-mode=15-bit pt=96",
    "h264": "openh264enc gop-size=25 ! h264parse ! rtph264pay config-interval=-1 aggregate-mode=zero-latency pt=96",
}
DECODERS = {
    "VP8": "rtpvp8depay ! vp8dec",
    "H264": "rtph264depay ! h264parse ! openh264dec",
    "OPUS": "rtpopusdepay ! opusdec",
}
PUBLISHER = """
webrtcbin name=peer bundle-policy=max-bundle
videotestsrc is-live=true pattern=ball ! video/x-raw,width=320,height=240,framerate=25/1 ! videoconvert ! {encoder}
    ! application/x-rtp,media=video,encoding-name={name},payload=96 ! peer.
audiotestsrc is-live=true wave=sine freq=440 ! audioconvert ! opusenc ! rtpopuspay pt=97
    ! application/x-rtp,media=audio,encoding-name=OPUS,payload=97 ! peer.
"""
VIDEO_CAPS = {
    "vp8": "application/x-rtp,media=video,encoding-name=VP8,payload=96,clock-rate=90000,rtcp-fb-nack-pli=true",
    "h264": "application/x-rtp,media=video,encoding-name=H264,payload=96,clock-rate=90000,"
    "packetization-mode=(string)1,profile-level-id=(string)42e01f,rtcp-fb-nack-pli=true",
}
AUDIO_CAPS = "application/x-rtp,media=audio,encoding-name=OPUS,payload=97,clock-rate=48000,encoding-params=(string)2"


def say(event, **facts):
    print(json.dumps({"event": event, **facts}), flush=True)


class Peer:
    def __init__(self, arguments):
        self.arguments, self.loop, self.failure, self.done = arguments, GLib.MainLoop(), None, False
        self.counts, self.began, self.session, self.posted = {"video": 0, "audio": 0}, time.monotonic(), None, False
        if arguments.action == "publish":
            description = PUBLISHER.format(encoder=ENCODERS[arguments.codec], name=arguments.codec.upper())
            self.pipeline = Gst.parse_launch(description)
        else:
            self.pipeline = Gst.Pipeline.new(None)
            self.pipeline.add(Gst.parse_launch("webrtcbin name=peer bundle-policy=max-bundle"))
        self.peer = self.pipeline.get_by_name("peer")
        self.peer.connect("notify::ice-gathering-state", self.gathered)
        self.peer.connect("notify::connection-state", self.connection_changed)
        if arguments.action == "play":
            direction = GstWebRTC.WebRTCRTPTransceiverDirection.RECVONLY
            for caps in (VIDEO_CAPS[arguments.codec], AUDIO_CAPS):
                self.peer.emit("add-transceiver", direction, Gst.Caps.from_string(caps))
            self.peer.connect("pad-added", self.pad_added)
        self.peer.connect("on-negotiation-needed", self.negotiate)
        bus = self.pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message::error", self.error)

    def run(self):
        self.pipeline.set_state(Gst.State.PLAYING)
        GLib.timeout_add(int(self.arguments.seconds * 1000), self.too_late)
        if self.arguments.action == "publish":
            threading.Thread(target=self.wait_for_input, daemon=True).start()
        self.loop.run()
        if self.session:
            # Before the DTLS session closes, which ends the server's as well.
            urllib.request.urlopen(urllib.request.Request(self.session, method="DELETE"), timeout=10)
        self.pipeline.set_state(Gst.State.NULL)
        if self.failure:
            say("failed", reason=self.failure)
        sys.exit(1 if self.failure else 0)

    def end(self, failure=None):
        self.failure = self.failure or failure
        self.loop.quit()

    def error(self, _bus, message):
        self.end(str(message.parse_error()))

    def too_late(self):
        if self.arguments.action == "play" or not self.session:
            self.end(f"not within {self.arguments.seconds} s: {self.counts}")
        return False

    def wait_for_input(self):
        sys.stdin.read()
        GLib.idle_add(self.end)

    def negotiate(self, _peer):
        promise = Gst.Promise.new_with_change_func(self.offer_made, None)
        self.peer.emit("create-offer", None, promise)

    def offer_made(self, promise, _data):
        # The offer lives in the reply, so the reply has to live as long.
        reply = promise.get_reply()
        self.peer.emit("set-local-description", reply.get_value("offer"), Gst.Promise.new())

    def gathered(self, *_):
        if self.peer.get_property("ice-gathering-state") != GstWebRTC.WebRTCICEGatheringState.COMPLETE or self.posted:
            return
        self.posted = True
        GLib.idle_add(self.post)

    def post(self):
        offer = self.peer.get_property("local-description").sdp.as_text()
        headers = {"Content-Type": "application/sdp"}
        try:
            request = urllib.request.Request(self.arguments.url, offer.encode(), headers)
            with urllib.request.urlopen(request, timeout=10) as response:
                answer = response.read()
                self.session = urllib.parse.urljoin(self.arguments.url, response.headers["Location"])
        except OSError as error:
            self.end(f"{error}: {getattr(error, 'read', lambda: b'')().decode()}")
            return False
        _, sdp = GstSdp.SDPMessage.new_from_text(answer.decode())
        description = GstWebRTC.WebRTCSessionDescription.new(GstWebRTC.WebRTCSDPType.ANSWER, sdp)
        self.peer.emit("set-remote-description", description, Gst.Promise.new())
        return False

    def connection_changed(self, *_):
        state = self.peer.get_property("connection-state")
        if state == GstWebRTC.WebRTCPeerConnectionState.CONNECTED:
            say("connected", version=Gst.version_string())
        elif state == GstWebRTC.WebRTCPeerConnectionState.FAILED:
            GLib.idle_add(self.end, "connection failed")

    def pad_added(self, _peer, pad):
        if pad.direction != Gst.PadDirection.SRC:
            return
        caps = pad.get_current_caps().get_structure(0)
        kind, decoder = caps.get_string("media"), DECODERS[caps.get_string("encoding-name")]
        part = Gst.parse_bin_from_description(
            f"queue ! {decoder} ! fakesink name=counter signal-handoffs=true sync=false", True
        )
        part.get_by_name("counter").connect("handoff", self.decoded, kind)
        self.pipeline.add(part)
        part.sync_state_with_parent()
        pad.link(part.get_static_pad("sink"))

    def decoded(self, _sink, _buffer, _pad, kind):
        self.counts[kind] += 1
        if self.counts[kind] >= self.arguments.frames:
            # Video and audio come on threads of their own: only the main loop's says "done", and only once.
            GLib.idle_add(self.enough)

    def enough(self):
        if min(self.counts.values()) >= self.arguments.frames and not self.done:
            self.done, took = True, round(time.monotonic() - self.began, 2)
            say("done", frames=self.counts["video"], audio=self.counts["audio"], took=took)
            self.end()
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["publish", "play"])
    parser.add_argument("url")
    parser.add_argument("--codec", default="vp8")
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    arguments = parser.parse_args()
    Gst.init(None)
    Peer(arguments).run()


if __name__ == "__main__":
    main()
