/** What WHIP and WHEP say in headers and session descriptions. */
import { describe, expect, it } from 'vitest';
import { preferredCodecs, usableCodecs } from '../src/rtc/codecs';
import { iceServersOf } from '../src/rtc/link-header';
import * as sdp from '../src/rtc/sdp';

const OFFER = [
  'v=0', 'o=- 1 2 IN IP4 127.0.0.1', 's=-', 't=0 0', 'a=group:BUNDLE 0 1',
  'm=audio 9 UDP/TLS/RTP/SAVPF 111', 'a=mid:0', 'a=ice-ufrag:abcd', 'a=ice-pwd:0123456789012345678901', 'a=rtpmap:111 opus/48000/2', 'a=fmtp:111 minptime=10;useinbandfec=1',
  'm=video 9 UDP/TLS/RTP/SAVPF 96 97', 'a=mid:1', 'a=ice-ufrag:abcd', 'a=ice-pwd:0123456789012345678901', 'a=rtpmap:96 VP8/90000', 'a=rtpmap:97 rtx/90000', 'a=fmtp:97 apt=96', '',
].join('\r\n');

describe('Link headers', () => {
  it.each([
    ['<stun:stun.example>; rel="ice-server"', [{ urls: 'stun:stun.example' }]],
    [
      '<stun:a>; rel=ice-server, <turn:b?transport=udp>; rel="ice-server"; username="me, you"; credential="a\\"b;c"; credential-type="password"',
      [{ urls: 'stun:a' }, { urls: 'turn:b?transport=udp', username: 'me, you', credential: 'a"b;c' }],
    ],
    ['<https://h/x>; rel="urn:ietf:params:whep:ext:core:server-sent-events", <stun:a>; rel="ice-server"', [{ urls: 'stun:a' }]],
    ['<turn:no-credentials>; rel="ice-server"', []], // the browser would refuse the whole list
    ['<http://a>; rel="ice-server"', []],
    ['<stun:a>; rel="icon"', []],
    ['<stun:a; rel="ice-server', []], // nothing closed
    ['', []],
    [null, []],
  ])('%s', (header, servers) => expect(iceServersOf(header)).toEqual(servers));

  it('takes a few servers, however many are named', () => {
    const header = Array.from({ length: 100 }, (_, index) => `<stun:h${index}>; rel="ice-server"`).join(', ');
    expect(iceServersOf(header)).toHaveLength(8);
  });
});

describe('session descriptions', () => {
  it('finds credentials and flags', () => {
    expect(sdp.iceCredentials(OFFER)).toEqual({ ufrag: 'abcd', password: '0123456789012345678901' });
    expect(sdp.iceCredentials('v=0\r\n')).toBeNull();
    expect(sdp.hasFlag('v=0\r\na=ice-lite\r\n', 'ice-lite')).toBe(true);
    expect(sdp.hasFlag('v=0\r\na=ice-lite-not\r\n', 'ice-lite')).toBe(false);
    expect(sdp.attribute(OFFER, 'mid')).toBe('0');
  });

  it('writes a trickle fragment and reads one', () => {
    const text = sdp.writeFragment(OFFER, { ufrag: 'u', password: 'p', candidates: ['candidate:1 1 udp 1 192.0.2.1 1 typ host'], end: true });
    expect(text).toBe(
      'a=ice-ufrag:u\r\na=ice-pwd:p\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\na=candidate:1 1 udp 1 192.0.2.1 1 typ host\r\na=end-of-candidates\r\n',
    );
    expect(sdp.readFragment(text)).toEqual({ ufrag: 'u', password: 'p', candidates: ['candidate:1 1 udp 1 192.0.2.1 1 typ host'], end: true });
    expect(sdp.readFragment('a=mid:0\r\n')).toBeNull();
  });

  it('puts the credentials of a restart into every section and the candidates into the first', () => {
    const answer = OFFER.replace('a=rtpmap:111', 'a=candidate:old\r\na=end-of-candidates\r\na=rtpmap:111');
    const changed = sdp.withFragment(answer, { ufrag: 'NEW', password: 'PWD', candidates: ['candidate:new'], end: false });
    expect(changed.match(/a=ice-ufrag:NEW\r\n/g)).toHaveLength(2);
    expect(changed.match(/a=ice-pwd:PWD\r\n/g)).toHaveLength(2);
    expect(changed).not.toContain('old');
    expect(changed).not.toContain('end-of-candidates');
    expect(changed.match(/a=candidate:new\r\n/g)).toHaveLength(1);
    expect(changed.indexOf('candidate:new')).toBeLessThan(changed.indexOf('m=video'));
    expect(sdp.withFragment(answer, { ufrag: 'NEW', password: 'PWD', candidates: [], end: false })).toContain('a=candidate:old');
  });

  it('asks for stereo once', () => {
    const stereo = sdp.withStereo(OFFER);
    expect(stereo).toContain('a=fmtp:111 minptime=10;useinbandfec=1;stereo=1;sprop-stereo=1\r\n');
    expect(sdp.withStereo(stereo)).toBe(stereo);
    expect(sdp.withStereo('v=0\r\n')).toBe('v=0\r\n');
  });

  it('names a bit rate to begin with, for codecs with and without parameters, and not for what repeats packets', () => {
    const answer = OFFER.replace('a=rtpmap:96 VP8/90000', 'a=rtpmap:96 VP8/90000\r\na=rtpmap:102 H264/90000\r\na=fmtp:102 packetization-mode=1');
    const changed = sdp.withStartBitrate(answer, 1_500_000);
    expect(changed).toContain('a=rtpmap:96 VP8/90000\r\na=fmtp:96 x-google-start-bitrate=1500\r\n');
    expect(changed).toContain('a=fmtp:102 packetization-mode=1;x-google-start-bitrate=1500\r\n');
    expect(changed).toContain('a=fmtp:97 apt=96\r\n');
    expect(changed).toContain('a=fmtp:111 minptime=10;useinbandfec=1\r\n');
  });
});

describe('codecs', () => {
  const capabilities = [
    { mimeType: 'video/VP8' },
    { mimeType: 'video/rtx' },
    { mimeType: 'video/H264', sdpFmtpLine: 'packetization-mode=0;profile-level-id=42001f' },
    { mimeType: 'video/H264', sdpFmtpLine: 'packetization-mode=1;profile-level-id=42001f' },
    { mimeType: 'video/AV1' },
    { mimeType: 'video/red' },
  ];
  const order = (choice: 'auto' | 'AV1' | 'H265') => preferredCodecs(capabilities, choice).map(({ mimeType, sdpFmtpLine }) => mimeType.slice(6) + (/mode=(.)/.exec(sdpFmtpLine ?? '')?.[1] ?? ''));

  it('knows which ones this browser has', () => expect(usableCodecs(capabilities)).toEqual(['H264', 'VP8', 'AV1']));
  it('offers H.264 first without a choice, in fragments before single packets', () => expect(order('auto')).toEqual(['H2641', 'H2640', 'VP8', 'AV1', 'rtx', 'red']));
  it('offers the chosen one alone, with what repeats lost packets', () => expect(order('AV1')).toEqual(['AV1', 'rtx', 'red']));
  it('offers everything when the chosen one is missing', () => expect(preferredCodecs(capabilities, 'H265')).toEqual(capabilities));
});
