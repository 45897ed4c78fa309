"""Publishes by WHIP or plays by WHEP with aiortc.

usage: peer.py publish|play URL [--codec vp8|h264] [--frames N] [--seconds N] [--flash] [--audio-late MS]

Publishing: a picture whose brightness moves, and a tone of 440 Hz, until standard input ends; with --flash, flash and beep.
Playing: until N pictures and as many pieces of audio are decoded; with --flash, how much later the beep is than the flash,
by the times that the sender reports of both tell (RFC 3550 section 6.4.1), as a browser reckons. What is printed, and why,
is said in interop/README.md.
"""

import argparse
import asyncio
import fractions
import json
import pathlib
import sys
import time
import urllib.parse
import urllib.request

import av
import numpy
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCRtpSender, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from aiortc.rtp import RtcpSrPacket

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import flash_and_beep  # noqa: E402

WIDTH, HEIGHT, RATE = 320, 240, 25
SAMPLE_RATE, SAMPLES = 48000, 960


def say(event, **facts):
    print(json.dumps({"event": event, **facts}), flush=True)


class Clock(MediaStreamTrack):
    """A track whose frames are due at a steady rate."""

    def __init__(self, interval):
        super().__init__()
        self.interval, self.count, self.start = interval, 0, None

    async def next_number(self):
        if self.readyState != "live":
            raise MediaStreamError
        self.start = self.start or time.monotonic()
        await asyncio.sleep(max(0, self.start + self.count * self.interval - time.monotonic()))
        self.count += 1
        return self.count - 1


class Picture(Clock):
    kind = "video"

    def __init__(self, flash):
        super().__init__(1 / RATE)
        self.flash = flash

    async def recv(self):
        number = await self.next_number()
        columns = (numpy.arange(WIDTH) + 4 * number) % 256
        if self.flash:
            columns = numpy.full(WIDTH, 255) if flash_and_beep.is_on(number / RATE) else columns // 3
        plane = numpy.broadcast_to(columns[None, :, None], (HEIGHT, WIDTH, 3)).astype(numpy.uint8)
        frame = av.VideoFrame.from_ndarray(numpy.ascontiguousarray(plane), format="rgb24")
        frame.pts, frame.time_base = number * 90000 // RATE, fractions.Fraction(1, 90000)
        return frame


class Tone(Clock):
    kind = "audio"

    def __init__(self, flash, late):
        super().__init__(SAMPLES / SAMPLE_RATE)
        self.flash, self.late = flash, late

    def loudness(self, at):
        if not self.flash:
            return 8000
        time = (at - self.late * SAMPLE_RATE) / SAMPLE_RATE
        return 20000 * numpy.array([flash_and_beep.is_on(one) for one in time])

    async def recv(self):
        number = await self.next_number()
        at = numpy.arange(number * SAMPLES, (number + 1) * SAMPLES)
        frequency = flash_and_beep.FREQUENCY if self.flash else 440
        tone = self.loudness(at) * numpy.sin(2 * numpy.pi * frequency * at / SAMPLE_RATE)
        samples = tone.astype(numpy.int16)
        frame = av.AudioFrame.from_ndarray(samples[None, :], format="s16", layout="mono")
        frame.pts, frame.sample_rate = number * SAMPLES, SAMPLE_RATE
        frame.time_base = fractions.Fraction(1, SAMPLE_RATE)
        return frame


def prefer(transceiver, codec):
    kinds = RTCRtpSender.getCapabilities("video").codecs
    wanted = f"video/{codec}".lower()
    transceiver.setCodecPreferences([kind for kind in kinds if kind.mimeType.lower() in (wanted, "video/rtx")])


async def exchange(peer, url):
    """Offer, POST, answer. Gives the session's URL."""
    await peer.setLocalDescription(await peer.createOffer())

    def post():
        request = urllib.request.Request(url, peer.localDescription.sdp.encode(), {"Content-Type": "application/sdp"})
        with urllib.request.urlopen(request, timeout=10) as response:
            assert response.status == 201, response.status
            return urllib.parse.urljoin(url, response.headers["Location"]), response.read().decode()

    session, answer = await asyncio.to_thread(post)
    await peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    return session


async def end(peer, session):
    # In this order: DTLS's close_notify ends the session as well, and then there is nothing left to delete.
    await asyncio.to_thread(urllib.request.urlopen, urllib.request.Request(session, method="DELETE"), timeout=10)
    await peer.close()


async def connected(peer, seconds):
    done = asyncio.Event()

    @peer.on("connectionstatechange")
    def changed():
        if peer.connectionState in ("connected", "failed", "closed"):
            done.set()

    changed()
    await asyncio.wait_for(done.wait(), seconds)
    assert peer.connectionState == "connected", peer.connectionState
    transport = peer.getTransceivers()[0].sender.transport
    say("connected", dtls=transport.state, srtp=transport._srtp_profile.openssl_profile.decode()
        if getattr(transport, "_srtp_profile", None) else None)


async def publish(arguments):
    peer = RTCPeerConnection()
    video = peer.addTransceiver(Picture(arguments.flash), direction="sendonly")
    prefer(video, arguments.codec)
    peer.addTransceiver(Tone(arguments.flash, arguments.audio_late / 1000), direction="sendonly")
    session = await exchange(peer, arguments.url)
    await connected(peer, arguments.seconds)
    await asyncio.to_thread(sys.stdin.read)
    statistics = await video.sender.getStats()
    sent = [value.packetsSent for value in statistics.values() if value.type == "outbound-rtp"]
    say("done", packets=sum(sent), codec=video.sender._RTCRtpSender__encoder.__class__.__name__)
    await end(peer, session)


class Clocks:
    """RTP time to the sender's time, by its reports."""

    def __init__(self, receiver):
        self.reports, self.newest = [], None
        handle = receiver._handle_rtcp_packet

        async def handle_and_note(packet):
            if isinstance(packet, RtcpSrPacket):
                ntp = packet.sender_info.ntp_timestamp / 2**32
                self.reports.append((self.map(packet.sender_info.rtp_timestamp), ntp))
            await handle(packet)

        receiver._handle_rtcp_packet = handle_and_note
        # Which would begin at 0 with the first frame, and reports with another time.
        receiver._RTCRtpReceiver__timestamp_mapper = self

    def map(self, time):
        """RTP time of any packet without wrapping around, for frames and reports alike."""
        if self.newest is None:
            self.newest = time
        distance = (time - self.newest + 2**31) % 2**32 - 2**31
        self.newest += distance
        return self.newest

    def seconds(self, time, rate):
        known, ntp = min(self.reports, key=lambda report: abs(report[0] - time))
        return ntp + (time - known) / rate


# The longest that the pictures a player begins with can take, seconds.
BACKLOG = 1


class Watch:
    """Flashes and beeps with their RTP times, until it is known what time that is."""

    def __init__(self, video, audio):
        self.clocks = {"video": Clocks(video), "audio": Clocks(audio)}
        self.flashes, self.beeps = flash_and_beep.Flashes(), flash_and_beep.Beeps()
        self.begun = None
        self.last, self.backwards = {}, 0

    def add(self, frame, kind):
        time = frame.pts
        self.backwards += time < self.last.get(kind, time)
        self.last[kind] = time
        if kind == "video":
            plane = frame.to_ndarray(format="gray")
            self.begun = time if self.begun is None else self.begun
            self.flashes.add(time, float(plane[plane.shape[0] // 4 : plane.shape[0] * 3 // 4].mean()))
        else:
            # In units of RTP, which are samples: made seconds as soon as there are reports.
            one = frame.to_ndarray().reshape(-1, len(frame.layout.channels))[:, 0]
            self.beeps.add(time / SAMPLE_RATE, one / 32768, frame.sample_rate)

    def facts(self):
        reports = {f"{kind}_reports": len(clock.reports) for kind, clock in self.clocks.items()}
        if not all(reports.values()):
            return reports
        flashes = [self.clocks["video"].seconds(time, 90000) for time in self.flashes.times]
        # A player begins with pictures from before its time, shown in fast succession: no audio belongs to them.
        begun = self.clocks["video"].seconds(self.begun, 90000) + BACKLOG
        flashes = [flash for flash in flashes if flash >= begun]
        beeps = [self.clocks["audio"].seconds(time * SAMPLE_RATE, SAMPLE_RATE) for time in self.beeps.times()]
        return {**reports, "backwards": self.backwards, **flash_and_beep.compare(flashes, beeps)}


async def play(arguments):
    peer = RTCPeerConnection()
    video, audio = peer.addTransceiver("video", direction="recvonly"), peer.addTransceiver("audio", direction="recvonly")
    prefer(video, arguments.codec)
    watch = Watch(video.receiver, audio.receiver) if arguments.flash else None
    counts, facts, tasks = {"video": 0, "audio": 0}, {}, []
    enough = asyncio.Event()

    async def receive(track):
        while True:
            frame = await track.recv()
            counts[track.kind] += 1
            if watch:
                watch.add(frame, track.kind)
            if track.kind == "video":
                facts["size"] = f"{frame.width}x{frame.height}"
                picture = frame.to_ndarray(format="gray")
                facts["contrast"] = max(facts.get("contrast", 0), int(picture.max()) - int(picture.min()))
            else:
                samples = frame.to_ndarray().astype(float)
                facts["energy"] = max(facts.get("energy", 0), round(float(numpy.sqrt((samples**2).mean()))))
            if min(counts.values()) >= arguments.frames:
                enough.set()

    @peer.on("track")
    def started(track):
        tasks.append(asyncio.ensure_future(receive(track)))

    began = time.monotonic()
    session = await exchange(peer, arguments.url)
    await connected(peer, arguments.seconds)
    try:
        await asyncio.wait_for(enough.wait(), arguments.seconds)
    except asyncio.TimeoutError:
        pass
    took = round(time.monotonic() - began, 2)
    say("done", frames=counts["video"], audio=counts["audio"], took=took, **facts, **(watch.facts() if watch else {}))
    for task in tasks:
        task.cancel()
    await end(peer, session)
    ok = enough.is_set() and facts["contrast"] > 50 and facts["energy"] > 500
    sys.exit(0 if ok else 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["publish", "play"])
    parser.add_argument("url")
    parser.add_argument("--codec", default="vp8")
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--flash", action="store_true")
    parser.add_argument("--audio-late", type=float, default=0)
    arguments = parser.parse_args()
    asyncio.run(publish(arguments) if arguments.action == "publish" else play(arguments))


if __name__ == "__main__":
    main()
