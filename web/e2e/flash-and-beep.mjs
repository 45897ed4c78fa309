/**
 * Flash and beep in a page (the source is told in interop/flash_and_beep.py): publishing them, and measuring
 * them.
 *
 * Both functions run inside the page, so each stands alone.
 */

/**
 * Publishes by WHIP: a picture of moving stripes that turns white, a tone that begins in the same moment.
 * Leaves `window.finish`, which ends the session and says what was sent.
 */
export async function publish({ url, codec }) {
  const PERIOD = 3;
  const STARTS = [0, 1.2];
  const LENGTH = 0.08;
  const TICK_MS = 40;

  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [320, 240];
  const pen = canvas.getContext('2d');
  const picture = canvas.captureStream(0).getVideoTracks()[0];
  const context = new AudioContext({ sampleRate: 48000, latencyHint: 'interactive' });
  await context.resume();
  const tone = new OscillatorNode(context, { frequency: 1000 });
  const gate = new GainNode(context, { gain: 0 });
  const speaker = new MediaStreamAudioDestinationNode(context, { channelCount: 1 });
  tone.connect(gate).connect(speaker);
  tone.start();

  let ticks = 0;
  const draw = () => {
    const at = (ticks * TICK_MS) / 1000;
    const within = STARTS.some((start) => (at + 1e-6) % PERIOD >= start && (at + 1e-6) % PERIOD < start + LENGTH - 1e-5);
    const starts = STARTS.some((start) => Math.abs((at % PERIOD) - start) < 1e-6 || Math.abs((at % PERIOD) - PERIOD - start) < 1e-6);
    if (starts) {
      gate.gain.setValueAtTime(0.7, context.currentTime);
      gate.gain.setValueAtTime(0, context.currentTime + LENGTH);
    }
    if (within) {
      pen.fillStyle = '#fff';
      pen.fillRect(0, 0, canvas.width, canvas.height);
    } else {
      for (let column = 0; column < 16; column += 1) {
        pen.fillStyle = `hsl(${(column * 24 + ticks * 3) % 360} 80% 25%)`;
        pen.fillRect(column * 20, 0, 20, canvas.height);
      }
    }
    picture.requestFrame();
    ticks += 1;
  };
  const began = performance.now();
  const timer = setInterval(() => {
    // Ticks that were late are left out, so that times stay those of the clock.
    const due = Math.floor((performance.now() - began) / TICK_MS);
    if (due > ticks) ticks = due;
    draw();
  }, TICK_MS);

  const peer = new RTCPeerConnection({ encodedInsertableStreams: true });
  const video = peer.addTransceiver(picture, { direction: 'sendonly' });
  const audio = peer.addTransceiver(speaker.stream.getAudioTracks()[0], { direction: 'sendonly' });
  // A busy machine leaves pictures out: in the page, and in the encoder. So what has been encoded is counted.
  const sent = [];
  for (const { sender } of [video, audio]) {
    const { readable, writable } = sender.createEncodedStreams();
    const counted = new TransformStream({
      transform(frame, controller) {
        if (sender === video.sender) sent.push(frame.getMetadata().rtpTimestamp);
        controller.enqueue(frame);
      },
    });
    readable.pipeThrough(counted).pipeTo(writable);
  }
  if (codec) {
    const known = RTCRtpSender.getCapabilities('video').codecs;
    const wanted = known.filter(({ mimeType }) => mimeType.toLowerCase() === `video/${codec}`);
    if (wanted.length === 0) throw new Error(`this browser does not send ${codec}`);
    video.setCodecPreferences([...wanted, ...known.filter(({ mimeType }) => mimeType === 'video/rtx')]);
  }
  await peer.setLocalDescription();
  while (peer.iceGatheringState !== 'complete') await new Promise((resolve) => peer.addEventListener('icegatheringstatechange', resolve, { once: true }));
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/sdp' }, body: peer.localDescription.sdp });
  if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`);
  const session = new URL(response.headers.get('location'), url);
  await peer.setRemoteDescription({ type: 'answer', sdp: await response.text() });
  while (peer.connectionState !== 'connected') {
    if (peer.connectionState === 'failed') throw new Error('the connection failed');
    await new Promise((resolve) => peer.addEventListener('connectionstatechange', resolve, { once: true }));
  }
  const outbound = async () => {
    const reports = [...(await peer.getStats()).values()];
    return reports.find(({ type, kind }) => type === 'outbound-rtp' && kind === 'video');
  };
  window.finish = async () => {
    clearInterval(timer);
    const stats = await outbound();
    await fetch(session, { method: 'DELETE' });
    peer.close();
    // Seconds since the first picture; 32 bits of 90 kHz wrap.
    const pictures = sent.map((timestamp) => ((timestamp - sent[0]) >>> 0) / 90000);
    const { framesEncoded: frames, keyFramesEncoded: key_frames, encoderImplementation: encoder, pliCount: pli } = stats;
    return { frames, key_frames, encoder, pli, pictures };
  };
  return { codec: codec || 'default' };
}

/**
 * Plays by WHEP for so many seconds, and says when flashes and beeps came. A page that gets no processor for
 * a while shows pictures late, or not at all: so nothing is shown, and pictures are looked at as the decoder
 * gives them. And it makes audio up, which it says: it plays so much longer.
 *
 * Flashes are times of pictures by their RTP timestamps, beeps those of samples by their number, both in
 * milliseconds. `pictures` and `sounds` say when each was there, by both clocks, and `playouts` what the
 * statistics say of both buffers: when, by how much the time of capture of what is played is ahead of the
 * page's clock, for video and audio, and how many samples were made up until then.
 */
export async function measure({ url, seconds, codec }) {
  const WHITE = 180;
  const peer = new RTCPeerConnection();
  const stream = new MediaStream();
  const both = new Promise((resolve) => {
    peer.ontrack = ({ track }) => {
      stream.addTrack(track);
      if (stream.getTracks().length === 2) resolve();
    };
  });
  const transceiver = peer.addTransceiver('video', { direction: 'recvonly' });
  const audioTransceiver = peer.addTransceiver('audio', { direction: 'recvonly' });
  // Else each buffer is as long as its own jitter asks for, and Chromium leaves up to 30 ms between them.
  for (const { receiver } of [transceiver, audioTransceiver]) receiver.jitterBufferTarget = 250;
  if (codec) {
    const known = RTCRtpReceiver.getCapabilities('video').codecs;
    transceiver.setCodecPreferences(known.filter(({ mimeType }) => [`video/${codec}`, 'video/rtx'].includes(mimeType.toLowerCase())));
  }
  await peer.setLocalDescription();
  while (peer.iceGatheringState !== 'complete') await new Promise((resolve) => peer.addEventListener('icegatheringstatechange', resolve, { once: true }));
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/sdp' }, body: peer.localDescription.sdp });
  if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`);
  const session = new URL(response.headers.get('location'), url);
  await peer.setRemoteDescription({ type: 'answer', sdp: await response.text() });
  await both;

  // Chromium decodes audio only while an element plays it.
  const speaker = new Audio();
  speaker.srcObject = new MediaStream(stream.getAudioTracks());
  await speaker.play();

  const small = new OffscreenCanvas(16, 12).getContext('2d', { willReadFrequently: true });
  const flashes = [];
  const steps = { backwards: 0, longest: 0 };
  const pictures = [];
  let bright = null;
  let lastTime = null;
  let mediaMs = 0;
  let frames = 0;
  let colours = 0;
  const look = (picture) => {
    frames += 1;
    small.drawImage(picture, 0, 0, 16, 12);
    const { data } = small.getImageData(0, 0, 16, 12);
    let light = 0;
    const seen = new Set();
    for (let at = 0; at < data.length; at += 4) {
      light += data[at] + data[at + 1] + data[at + 2];
      seen.add((data[at] >> 5) * 64 + (data[at + 1] >> 5) * 8 + (data[at + 2] >> 5));
    }
    colours = Math.max(colours, seen.size);
    const { rtpTimestamp } = picture.metadata();
    if (lastTime !== null) {
      const stepMs = ((rtpTimestamp - lastTime) | 0) / 90;
      if (stepMs < 0) steps.backwards += 1;
      steps.longest = Math.max(steps.longest, stepMs);
      mediaMs += stepMs;
    }
    lastTime = rtpTimestamp;
    pictures.push([mediaMs, performance.now()]);
    const isBright = light / (data.length / 4) / 3 > WHITE;
    // Whoever comes while it is white has missed the beginning.
    if (isBright && bright === false) flashes.push(mediaMs);
    bright = isBright;
  };
  const takeAll = (track, take) =>
    new MediaStreamTrackProcessor({ track, maxBufferSize: 500 }).readable.pipeTo(new WritableStream({ write: (data) => (take(data), data.close()) }));
  const sawAll = takeAll(stream.getVideoTracks()[0], look);

  const beeps = [];
  const sounds = [];
  let samples = 0;
  let [sum, count, quiet] = [0, 0, 0];
  const listen = (sound) => {
    const levels = new Float32Array(sound.numberOfFrames);
    sound.copyTo(levels, { planeIndex: 0, format: 'f32-planar' });
    const perMs = sound.sampleRate / 1000;
    for (const [index, level] of levels.entries()) {
      sum += level ** 2;
      count += 1;
      if (count < perMs) continue;
      // A third of the loudness; half of the source's amplitude is its level.
      const isLoud = Math.sqrt(sum / count) >= 0.17;
      // 80 ms: between two beeps, not between two waves.
      if (isLoud && quiet > 80) beeps.push((samples + index + 1 - count) / perMs);
      quiet = isLoud ? 0 : quiet + 1;
      [sum, count] = [0, 0];
    }
    // The statistics speak of the beginning of a piece.
    sounds.push([samples / perMs, performance.now()]);
    samples += levels.length;
  };
  const heardAll = takeAll(stream.getAudioTracks()[0], listen);

  const inbound = async (kind) => [...(await peer.getStats()).values()].find((report) => report.type === 'inbound-rtp' && report.kind === kind);
  const deadline = performance.now() + 30_000;
  while (!((await inbound('video'))?.framesDecoded > 0 && (await inbound('audio'))?.totalAudioEnergy > 0.0001)) {
    if (performance.now() > deadline) throw new Error(`no video or no audio: ${JSON.stringify([await inbound('video'), await inbound('audio')])}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  window.isConnected = true;
  const playouts = [];
  const begun = performance.now();
  // Seconds after audio was made up do not count; there may be no others on a machine that is far too busy.
  let [calmMs, last, madeUp] = [0, begun, { samples: 0, when: begun }];
  const enough = () => calmMs >= 1000 * seconds && Math.min(flashes.length, beeps.length) > seconds / 3;
  while (!enough() && performance.now() - begun < 1000 * seconds + 60_000) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    const [seen, heard] = [await inbound('video'), await inbound('audio')];
    if (seen.estimatedPlayoutTimestamp && heard.estimatedPlayoutTimestamp) {
      const [ofVideo, ofAudio] = [seen, heard].map((report) => report.estimatedPlayoutTimestamp - (report.timestamp - performance.timeOrigin));
      playouts.push([heard.timestamp - performance.timeOrigin, ofVideo, ofAudio, heard.concealedSamples]);
    }
    const now = performance.now();
    if (heard.concealedSamples > madeUp.samples) madeUp = { samples: heard.concealedSamples, when: now };
    if (now - madeUp.when > 1000) calmMs += now - last;
    last = now;
  }
  const [seen, heard] = [await inbound('video'), await inbound('audio')];
  await fetch(session, { method: 'DELETE' });
  peer.close();
  await Promise.all([sawAll, heardAll]);
  return {
    frames,
    colours,
    size: `${seen.frameWidth}x${seen.frameHeight}`,
    decoded: seen.framesDecoded,
    dropped: seen.framesDropped,
    freezes: seen.freezeCount ?? 0,
    lost: seen.packetsLost + heard.packetsLost,
    concealed: heard.concealedSamples - (heard.silentConcealedSamples ?? 0),
    video_delay_ms: Math.round((1000 * seen.jitterBufferDelay) / Math.max(1, seen.jitterBufferEmittedCount)),
    audio_delay_ms: Math.round((1000 * heard.jitterBufferDelay) / Math.max(1, heard.jitterBufferEmittedCount)),
    backwards: steps.backwards,
    longest_step_ms: Math.round(steps.longest),
    pictures,
    sounds,
    playouts,
    flash_times: flashes,
    beep_times: beeps,
  };
}
