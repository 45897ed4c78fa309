/**
 * Chromium as a client of the benchmark of adaptation (scripts/bench adapt --real):
 * `node e2e/adapt.mjs watch|push|publish [--through ADDRESS] [--seconds N] [--most KBIT] [--codec CODEC] [--layers LAYERS] URL`.
 *
 * ADDRESS is put in place of the server's. Watching, its statistics are looked at ten times a second for N
 * seconds from the first packet of video on; what is printed is what interop/pion/adapt prints. Pushing
 * is of moving noise, with KBIT kbit/s at most, until standard input ends; publishing is of the same with
 * LAYERS: `simulcast`, or a scalability mode as L3T3_KEY, by CODEC (VP8, VP9, AV1 or H264).
 */
import { launch, openPage } from './browser.mjs';

const [action, ...rest] = process.argv.slice(2);
const url = rest.find((word) => word.startsWith('http'));
const option = (name, otherwise) => (rest.includes(`--${name}`) ? rest[rest.indexOf(`--${name}`) + 1] : otherwise);
const say = (event, facts = {}) => process.stdout.write(`${JSON.stringify({ event, ...facts })}\n`);

/** Inside the page: exchanges descriptions, and waits until there is a connection. */
async function connect({ through }) {
  window.join = async (peer, target) => {
    await peer.setLocalDescription();
    while (peer.iceGatheringState !== 'complete') await new Promise((resolve) => peer.addEventListener('icegatheringstatechange', resolve, { once: true }));
    const response = await fetch(target, { method: 'POST', headers: { 'content-type': 'application/sdp' }, body: peer.localDescription.sdp });
    if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`);
    window.session = new URL(response.headers.get('location'), target).href;
    const [host, port] = through.split(':');
    const answer = (await response.text())
      .replace(/^a=candidate:\S+ \d+ tcp .*\r?\n/gim, '')
      .replace(/^(a=candidate:\S+ \d+ udp \d+) \S+ \d+ typ host.*?(\r?)$/gim, (line, head, end) => (port ? `${head} ${host} ${port} typ host${end}` : line));
    await peer.setRemoteDescription({ type: 'answer', sdp: answer });
    while (peer.connectionState !== 'connected') {
      if (peer.connectionState === 'failed') throw new Error('the connection failed');
      await new Promise((resolve) => peer.addEventListener('connectionstatechange', resolve, { once: true }));
    }
    return { transport_cc: answer.includes('transport-cc'), simulcast: answer.includes('a=simulcast') };
  };

  /** Moving noise, little enough of it for every picture to fit into a small rate, coarsely; and a tone. */
  window.film = async (width, height, tickMs) => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [width, height];
    const pen = canvas.getContext('2d');
    const noise = document.createElement('canvas');
    [noise.width, noise.height] = [2 * width, 2 * height];
    const grain = noise.getContext('2d').createImageData(2 * width, 2 * height);
    for (let at = 0; at < grain.data.length; at += 4) {
      const light = 108 + Math.random() * 40;
      grain.data.set([light, light, light, 255], at);
    }
    noise.getContext('2d').putImageData(grain, 0, 0);
    const picture = canvas.captureStream(0).getVideoTracks()[0];
    picture.contentHint = 'motion';
    setInterval(() => {
      pen.drawImage(noise, -Math.floor(Math.random() * width), -Math.floor(Math.random() * height));
      picture.requestFrame();
    }, tickMs);
    const context = new AudioContext({ sampleRate: 48000 });
    await context.resume();
    const tone = new OscillatorNode(context, { frequency: 440 });
    const speaker = new MediaStreamAudioDestinationNode(context, { channelCount: 1 });
    tone.connect(speaker);
    tone.start();
    return [picture, speaker.stream.getAudioTracks()[0]];
  };
}

async function watch({ url, seconds, descriptors }) {
  const LAYERS = { 180: 0, 360: 1, 720: 2, 135: 0, 270: 1, 540: 2 };
  const LOOK_MS = 100;
  const peer = new RTCPeerConnection();
  const transceiver = peer.addTransceiver('video', { direction: 'recvonly' });
  // As the player page does: else nothing says which frames of AV1 are of which layer.
  const extensions = descriptors ? (transceiver.getHeaderExtensionsToNegotiate?.() ?? []) : [];
  for (const entry of extensions) if (entry.uri.includes('dependency-descriptor')) entry.direction = 'sendrecv';
  if (extensions.length > 0) transceiver.setHeaderExtensionsToNegotiate(extensions);
  peer.addTransceiver('audio', { direction: 'recvonly' });
  const screen = document.createElement('video');
  [screen.autoplay, screen.srcObject] = [true, new MediaStream()];
  document.body.append(screen);
  peer.ontrack = ({ track }) => screen.srcObject.addTrack(track);
  window.connection = await window.join(peer, url);

  const look = async () => {
    const reports = [...(await peer.getStats()).values()].filter(({ type }) => type === 'inbound-rtp');
    return { now: performance.now(), video: reports.find(({ kind }) => kind === 'video'), audio: reports.find(({ kind }) => kind === 'audio') };
  };
  let seen = await look();
  const asked = performance.now();
  while (!(seen.video?.packetsReceived > 0)) {
    if (performance.now() - asked > 15_000) throw new Error('no media within 15 s');
    await new Promise((resolve) => setTimeout(resolve, 20));
    seen = await look();
  }
  const began = seen.now;
  const bytesOf = ({ video }) => video.bytesReceived + video.headerBytesReceived;
  const bits = [[0, bytesOf(seen) * 8]];
  const pictures = [];
  let decoded = 0;
  for (let at = 1; at * LOOK_MS <= seconds * 1000; at += 1) {
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, began + at * LOOK_MS - performance.now())));
    const before = bytesOf(seen);
    seen = await look();
    const ms = Math.round(seen.now - began);
    // What came since the last look, in the middle between both.
    bits.push([Math.max(0, ms - LOOK_MS / 2), (bytesOf(seen) - before) * 8]);
    if (seen.video.framesDecoded > decoded) pictures.push([ms, LAYERS[seen.video.frameHeight] ?? -1]);
    decoded = seen.video.framesDecoded;
  }
  const { video, audio } = seen;
  // A freeze that does not end is in no statistics.
  const still = seconds * 1000 - (pictures.at(-1)?.[0] ?? 0);
  const freezes = video.totalFreezesDuration * 1000 + (still > 190 ? still : 0);
  const result = {
    began_ns: Math.round((performance.timeOrigin + began) * 1e6),
    bits,
    pictures,
    decoded: video.framesDecoded,
    freeze_ms: Math.round(freezes),
    pli: video.pliCount,
    missing: video.packetsLost,
    audio_missing: audio?.packetsLost ?? 0,
    notes: {
      freezes: video.freezeCount,
      size: `${video.frameWidth}x${video.frameHeight}`,
      jitter_buffer_ms: Math.round((1000 * video.jitterBufferDelay) / Math.max(1, video.jitterBufferEmittedCount)),
      nack: video.nackCount,
      codec: [...(await peer.getStats()).values()].find(({ id }) => id === video.codecId)?.mimeType,
      keys: video.keyFramesDecoded,
      concealed: audio?.concealedSamples,
    },
  };
  await fetch(window.session, { method: 'DELETE' });
  peer.close();
  return result;
}

async function push({ url, most }) {
  const [picture, sound] = await window.film(640, 360, 40);
  const peer = new RTCPeerConnection();
  const video = peer.addTransceiver(picture, { direction: 'sendonly', sendEncodings: [{ maxBitrate: most * 1000 }] });
  peer.addTransceiver(sound, { direction: 'sendonly' });
  const known = RTCRtpSender.getCapabilities('video').codecs;
  video.setCodecPreferences(known.filter(({ mimeType }) => ['video/vp8', 'video/rtx'].includes(mimeType.toLowerCase())));
  window.connection = await window.join(peer, url);
  const parameters = video.sender.getParameters();
  parameters.degradationPreference = 'maintain-resolution';
  await video.sender.setParameters(parameters);

  const targets = [];
  setInterval(async () => {
    const reports = [...(await peer.getStats()).values()];
    const pair = reports.find(({ type, nominated, availableOutgoingBitrate }) => type === 'candidate-pair' && nominated && availableOutgoingBitrate);
    targets.push(Math.round((pair?.availableOutgoingBitrate ?? 0) / 1000));
  }, 1000);
  window.finish = async () => {
    const sent = [...(await peer.getStats()).values()].find(({ type, kind }) => type === 'outbound-rtp' && kind === 'video');
    await fetch(window.session, { method: 'DELETE' });
    peer.close();
    const { framesEncoded, frameWidth, frameHeight, qualityLimitationReason, pliCount, targetBitrate } = sent;
    return { targets_kbit: targets, frames: framesEncoded, size: `${frameWidth}x${frameHeight}`, limited_by: qualityLimitationReason, pli: pliCount, target: targetBitrate };
  };
}

/** Layers of about 150, 500 and 1700 kbit/s. */
async function publish({ url, codec, layers }) {
  const [picture, sound] = await window.film(960, 540, 50);
  const peer = new RTCPeerConnection();
  const rates = [150_000, 500_000, 1_700_000];
  const isSimulcast = layers === 'simulcast';
  const encodings = isSimulcast
    ? ['q', 'h', 'f'].map((rid, at) => ({ rid, scaleResolutionDownBy: 4 / 2 ** at, maxBitrate: rates[at] }))
    : [{ scalabilityMode: layers, maxBitrate: rates.reduce((sum, rate) => sum + rate) }];
  const video = peer.addTransceiver(picture, { direction: 'sendonly', sendEncodings: encodings });
  peer.addTransceiver(sound, { direction: 'sendonly' });
  const known = RTCRtpSender.getCapabilities('video').codecs;
  const wanted = (name) => known.filter(({ mimeType }) => mimeType.toLowerCase() === `video/${name}`);
  video.setCodecPreferences([...wanted(codec.toLowerCase()), ...wanted('rtx')]);
  window.connection = await window.join(peer, url);
  const parameters = video.sender.getParameters();
  parameters.degradationPreference = 'maintain-resolution';
  await video.sender.setParameters(parameters);
  window.finish = async () => {
    const sent = [...(await peer.getStats()).values()].filter(({ type, kind }) => type === 'outbound-rtp' && kind === 'video');
    await fetch(window.session, { method: 'DELETE' });
    peer.close();
    const of = (field) => sent.map((one) => one[field]);
    return { keys: of('keyFramesEncoded'), pli: of('pliCount'), frames: of('framesEncoded'), heights: of('frameHeight'), mode: of('scalabilityMode'), kbytes: of('bytesSent').map((bytes) => Math.round(bytes / 1000)) };
  };
}

const browser = await launch([`--unsafely-treat-insecure-origin-as-secure=${new URL(url).origin}`]);
try {
  const { page } = await openPage(browser, url, { bypassCSP: true });
  // Any page of the server's.
  await page.goto(new URL('/healthz', url).href);
  await page.evaluate(connect, { through: option('through', '') });
  const isConnected = () => page.waitForFunction(() => window.connection);
  if (action === 'watch') {
    const watched = page.evaluate(watch, { url, seconds: Number(option('seconds', '20')), descriptors: option('descriptors', 'yes') === 'yes' });
    const connection = await Promise.race([isConnected(), watched.then(() => isConnected())]);
    say('connected', await connection.jsonValue());
    say('done', await watched);
  } else if (action === 'push') {
    await page.evaluate(push, { url, most: Number(option('most', '5000')) });
    say('connected', await (await isConnected()).jsonValue());
    await new Promise((resolve) => process.stdin.on('end', resolve).resume());
    say('done', await page.evaluate(() => window.finish()));
  } else if (action === 'publish') {
    await page.evaluate(publish, { url, codec: option('codec', 'VP8'), layers: option('layers', 'simulcast') });
    say('connected', await (await isConnected()).jsonValue());
    await new Promise((resolve) => process.stdin.on('end', resolve).resume());
    say('done', await page.evaluate(() => window.finish()));
  } else {
    throw new Error('usage: adapt.mjs watch|push|publish [--through ADDRESS] [--seconds N] [--most KBIT] [--codec CODEC] [--layers LAYERS] URL');
  }
} catch (error) {
  say('failed', { reason: error.message });
  process.exitCode = 1;
} finally {
  await browser.close();
}
