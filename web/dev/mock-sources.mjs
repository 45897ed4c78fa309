/**
 * Channels, pulls and pushes of the stand-in server: their figures move, they can be added, skipped and
 * removed, and some of them are in trouble.
 */

const iso = (ms) => new Date(ms).toISOString();

/** The item lengths are made up from the place in the list. */
const lengthOf = (index) => 9_000 + 7_000 * (index % 3);

class Channel {
  constructor({ app, name, items, loop = true, start = null }, source, now) {
    Object.assign(this, { app, name, loop, start, source, since: now, began: start === null ? now : Date.parse(start), at: 0, loops: 0, played: 0, failed: 0 });
    this.items = items.map((location, index) => ({ location, length: lengthOf(index), error: /broken/.test(location) ? 'no moov box: this is no MP4 file, or it was cut off' : null }));
    this.events = [];
    this.itemBegan = this.began;
  }

  note(kind, item, message, now) {
    this.events = [...this.events, { at: iso(now), item, kind, message }].slice(-20);
  }

  /** Goes on by one item; broken ones are told and left out. */
  forward(now) {
    for (let tries = 0; tries < this.items.length; tries += 1) {
      this.at += 1;
      if (this.at === this.items.length) {
        this.at = 0;
        this.loops += 1;
      }
      if (this.items[this.at].error === null) break;
      this.failed += 1;
      this.note('broken', this.at, this.items[this.at].error, now);
    }
    this.itemBegan = now;
    this.played += 1;
  }

  tick(now) {
    while (this.state(now) === 'playing' && now - this.itemBegan >= this.items[this.at].length) this.forward(this.itemBegan + this.items[this.at].length);
  }

  state(now) {
    if (now < this.began) return 'waiting';
    return this.items.every((item) => item.error !== null) ? 'retrying' : 'playing';
  }

  answer(now) {
    this.tick(now);
    const state = this.state(now);
    const playing = state === 'playing';
    const next = (this.at + 1) % this.items.length;
    return {
      app: this.app, name: this.name, source: this.source, state, since: iso(this.began),
      items: this.items.map((item) => ({ location: item.location, duration_ms: item.error === null ? item.length : null, last_error: this.failed > 0 || state === 'retrying' ? item.error : null })),
      loop: this.loop, start: this.start,
      item: playing ? this.at : null, position_ms: playing ? now - this.itemBegan : null, duration_ms: playing ? this.items[this.at].length : null,
      next: playing ? next : null, next_ready: playing && now - this.itemBegan > 3_000,
      loops: this.loops, items_played: this.played, items_failed: state === 'retrying' ? 12 : this.failed, pauses: this.start === null ? 0 : 3, behind_ms: this.start === null || !playing ? 0 : 4_330,
      retry_in_ms: state === 'retrying' ? 5_000 - (now % 5_000) : null, events: this.events,
    };
  }
}

function srtOf(seconds) {
  const packets = Math.round(seconds * 200);
  return {
    packets, lost_packets: Math.round(packets / 400), retransmitted_packets: Math.round(packets / 410),
    dropped_packets: 0, late_packets: 0, undecrypted_packets: 0, rtt_ms: 12 + Math.sin(seconds),
    latency_ms: 120, buffer_packets: 14, buffer_bytes: 18_424, buffer_ms: 60, encrypted: true,
  };
}

class Pull {
  constructor({ app, name, url, on_demand = false }, source, now) {
    Object.assign(this, { app, name, url: url.replace(/\/\/[^/@]*@/, '//'), on_demand, source, since: now });
    this.idle = /\*/.test(name);
    this.dead = /dead|nowhere/.test(url);
  }

  answer(now) {
    const seconds = (now - this.since) / 1000;
    return {
      app: this.app, name: this.name, source: this.source, url: this.url, on_demand: this.on_demand,
      state: this.dead ? 'waiting' : this.idle ? 'idle' : 'live', since: iso(this.since),
      attempts: this.dead ? Math.floor(seconds / 8) + 1 : 1, failures: this.dead ? Math.floor(seconds / 8) + 1 : 2, reconnects: this.dead ? 0 : 1,
      last_error: this.dead
        ? 'cannot connect to 203.0.113.9:1935: connection refused'
        : this.idle ? null : 'no data for 10 s',
      last_error_at: iso(this.dead ? now - (now - this.since) % 8_000 : this.since - 60_000), retry_in_ms: this.dead ? 8_000 - (now - this.since) % 8_000 : null,
      bytes: this.dead || this.idle ? 0 : Math.round(seconds * 262_500),
      bitrate_bits_per_second: this.dead || this.idle ? 0 : Math.round(2.1e6 + 1e5 * Math.sin(seconds)),
      srt: null,
    };
  }
}

class Push {
  constructor({ stream, url, streams = [] }, source, now) {
    this.id = Push.next;
    Push.next += 1;
    const shown = url.replace(/\/\/[^/@]*@/, '//').replace(/\?.*/, '?...');
    Object.assign(this, { stream, url: shown, source, since: now });
    this.streams = streams;
  }

  answer(now) {
    const seconds = (now - this.since) / 1000;
    const streams = this.streams.map(({ app, name, dead = false, dropped = 0 }) => ({
      app, name, url: this.url.replace('{app}', app).replace('{stream}', name),
      state: dead ? 'waiting' : 'live', since: iso(this.since),
      attempts: dead ? Math.floor(seconds / 8) + 1 : 1, failures: dead ? Math.floor(seconds / 8) + 1 : 1,
      reconnects: dead ? 0 : 1,
      last_error: dead ? 'the server refuses: NetStream.Publish.BadName' : 'the connection was closed',
      last_error_at: iso(now - 60_000),
      retry_in_ms: dead ? 8_000 - (now - this.since) % 8_000 : null, not_carried: null,
      bytes: dead ? 0 : Math.round(seconds * 262_500),
      bitrate_bits_per_second: dead ? 0 : Math.round(2.1e6 + 1e5 * Math.sin(seconds)),
      frames: dead ? 0 : Math.round(seconds * 72), frames_left_out: dropped,
      srt: this.url.startsWith('srt:') && !dead ? srtOf(seconds) : null,
    }));
    return { id: this.id, source: this.source, stream: this.stream, url: this.url, streams };
  }
}
Push.next = 1;

const fail = (status, code, message) => ({ status, body: { error: { code, message } } });

/**
 * `answer`: to requests below `/channels`, `/pulls` and `/pushes`, null to others. `onAir`: which streams
 * they make. `empty`: none to begin with.
 */
export function makeSources({ empty }) {
  const now = Date.now();
  const kinds = {
    channels: { make: (body, source) => new Channel(body, source, Date.now()), list: [], check: checkChannel },
    pulls: { make: (body, source) => new Pull(body, source, Date.now()), list: [], check: checkPull },
    pushes: { make: (body, source) => new Push(body, source, Date.now()), list: [], check: checkPull },
  };
  if (!empty) {
    const film = (name) => `https://media.example.org/films/${name}`;
    kinds.channels.list.push(
      new Channel({ app: 'tv', name: 'evening', items: [film('opening%20titles.mp4'), film('the-mill.mp4'), film('broken.mp4'), '/srv/films/closing.mp4'], start: iso(now - 60_000) }, 'configuration', now),
      new Channel({ app: 'tv', name: 'night', items: [film('broken-a.mp4'), film('broken-b.mp4')] }, 'api', now),
      new Channel({ app: 'tv', name: 'premiere', items: [film('premiere.mp4')], loop: false, start: iso(now + 5 * 3600_000) }, 'api', now),
    );
    kinds.pulls.list.push(
      new Pull({ app: 'sport', name: 'court-4', url: 'rtmp://origin.example.org/sport/court-4' }, 'configuration', now - 4_000_000),
      new Pull({ app: 'sport', name: 'court-3', url: 'https://dead.example.org/sport/court-3.flv' }, 'api', now - 30_000),
      new Pull(
        { app: 'cam', name: '*', url: 'rtsp://cameras.example.org/{stream}', on_demand: true },
        'configuration', now,
      ),
    );
    kinds.pushes.list.push(
      new Push({
        stream: 'sport/*', url: 'rtmp://backup.example.org/{app}/{stream}',
        streams: [
          { app: 'sport', name: 'court-4', dropped: 412 },
          { app: 'sport', name: 'court-7', dead: true },
        ],
      }, 'configuration', now - 4_000_000),
      new Push({ stream: 'live/show', url: 'srt://edge.example.org:8890?streamid=x' }, 'api', now),
      new Push({
        stream: 'sport/court-4', url: 'srt://studio.example.org:9000?streamid=x',
        streams: [{ app: 'sport', name: 'court-4' }],
      }, 'configuration', now - 4_000_000),
    );
  }
  const answer = (method, path, body) => {
    const push = /^\/pushes\/(\d+)$/.exec(path);
    if (push !== null) {
      const { list } = kinds.pushes;
      const at = list.findIndex((one) => one.id === Number(push[1]));
      if (at < 0) return fail(404, 'not_found', 'no such push');
      if (method !== 'DELETE') return { body: list[at].answer(Date.now()) };
      list.splice(at, 1);
      return { status: 204 };
    }
    const parts = /^\/(channels|pulls|pushes)(?:\/([^/]+)\/([^/]+)(?:\/(skip))?)?$/;
    const [, what, app, name, action] = parts.exec(path) ?? [];
    if (what === undefined) return null;
    const kind = kinds[what];
    if (app === undefined) return method === 'POST' ? add(kind, body) : { body: { [what]: kind.list.map((one) => one.answer(Date.now())) } };
    const found = kind.list.find((one) => one.app === decodeURIComponent(app) && one.name === decodeURIComponent(name));
    if (found === undefined) return fail(404, 'not_found', 'no such source');
    if (action === 'skip') found.forward(Date.now());
    else if (method === 'DELETE') kind.list.splice(kind.list.indexOf(found), 1);
    else return { body: found.answer(Date.now()) };
    return { status: 204 };
  };
  const onAir = () => {
    const now = Date.now();
    const channels = kinds.channels.list.filter((one) => one.state(now) === 'playing').map(({ app, name }) => ({ app, name, protocol: 'channel' }));
    const pulls = kinds.pulls.list.filter((one) => !one.dead && !one.idle);
    return [...channels, ...pulls.map(({ app, name }) => ({ app, name, protocol: 'pull' }))];
  };
  return { answer, onAir };
}

function add(kind, body) {
  const wrong = kind.check(body);
  if (wrong !== null) return fail(400, 'bad_request', wrong);
  if (body.app !== undefined && kind.list.some((one) => one.app === body.app && one.name === body.name)) {
    return fail(409, 'exists', `${body.app}/${body.name} is there already`);
  }
  const made = kind.make(body, 'api');
  kind.list.push(made);
  return { status: 201, body: made.answer(Date.now()) };
}

function checkChannel({ items }) {
  const index = items.findIndex((item) => /127\.|localhost|192\.168\./.test(item));
  return index < 0 ? null : `items[${index}]: the address is private, which sources.allow_private_addresses does not permit`;
}

function checkPull({ url }) {
  return /127\.|localhost|192\.168\./.test(url) ? 'url: the address is private, which sources.allow_private_addresses does not permit' : null;
}
