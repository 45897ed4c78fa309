"""Publishes by WHIP or plays by WHEP with aiortc.

usage: peer.py publish|play URL [--codec vp8|h264] [--frames N] [--seconds N]

Publishing: a picture whose brightness moves, and a tone of 440 Hz, until standard input ends. Playing: until N pictures
and as many pieces of audio are decoded. What is printed, and why, is said in interop/README.md.
"""

import argparse
import asyncio
import fractions
import json
import sys
import time
import urllib.parse
import urllib.request

import av
import numpy
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCRtpSender, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError

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

    def __init__(self):
        super().__init__(1 / RATE)

    async def recv(self):
        number = await self.next_number()
        columns = (numpy.arange(WIDTH) + 4 * number) % 256
        plane = numpy.broadcast_to(columns[None, :, None], (HEIGHT, WIDTH, 3)).astype(numpy.uint8)
        frame = av.VideoFrame.from_ndarray(numpy.ascontiguousarray(plane), format="rgb24")
        frame.pts, frame.time_base = number * 90000 // RATE, fractions.Fraction(1, 90000)
        return frame


class Tone(Clock):
    kind = "audio"

    def __init__(self):
        super().__init__(SAMPLES / SAMPLE_RATE)

    async def recv(self):
        number = await self.next_number()
        at = numpy.arange(number * SAMPLES, (number + 1) * SAMPLES)
        samples = (8000 * numpy.sin(2 * numpy.pi * 440 * at / SAMPLE_RATE)).astype(numpy.int16)
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
    video = peer.addTransceiver(Picture(), direction="sendonly")
    prefer(video, arguments.codec)
    peer.addTransceiver(Tone(), direction="sendonly")
    session = await exchange(peer, arguments.url)
    await connected(peer, arguments.seconds)
    await asyncio.to_thread(sys.stdin.read)
    statistics = await video.sender.getStats()
    sent = [value.packetsSent for value in statistics.values() if value.type == "outbound-rtp"]
    say("done", packets=sum(sent), codec=video.sender._RTCRtpSender__encoder.__class__.__name__)
    await end(peer, session)


async def play(arguments):
    peer = RTCPeerConnection()
    prefer(peer.addTransceiver("video", direction="recvonly"), arguments.codec)
    peer.addTransceiver("audio", direction="recvonly")
    counts, facts, tasks = {"video": 0, "audio": 0}, {}, []
    enough = asyncio.Event()

    async def receive(track):
        while True:
            frame = await track.recv()
            counts[track.kind] += 1
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
    say("done", frames=counts["video"], audio=counts["audio"], took=round(time.monotonic() - began, 2), **facts)
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
    arguments = parser.parse_args()
    asyncio.run(publish(arguments) if arguments.action == "publish" else play(arguments))


if __name__ == "__main__":
    main()
