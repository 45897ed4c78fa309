import { describe, expect, it } from 'vitest';
import { playerUrl } from '../src/lib/urls';
import { describeHlsError } from '../src/player/hls-player';
import { fallbackWords, orderOf } from '../src/player/transports';

describe('HLS in the player', () => {
  it('has the token in the URL of its playlist, from where it carries over', () => {
    const stream = { app: 'live', name: 'a b' };
    expect(playerUrl('http://h:1', stream, 'hls', 'x&y')).toBe('http://h:1/live/a%20b.m3u8?token=x%26y');
  });

  it('is there for every stream, and WebRTC stands in for it', () => {
    expect(orderOf('hls', { rtc: true, flv: false })).toEqual(['hls', 'rtc']);
    expect(orderOf('hls', { rtc: false, flv: true })).toEqual(['hls']);
    expect(fallbackWords('hls', 'why', { rtc: true, flv: false })).toBe('why');
  });

  it('says what a refusal means, and gives the turn to others where they may help', () => {
    const refused = (code: number) =>
      describeHlsError({ type: 'networkError', details: 'manifestLoadError', response: { code } } as never);
    expect(refused(403)).toMatchObject({ needsToken: true, retry: 'never' });
    expect(refused(404)).toMatchObject({ elsewhere: 'nobody' });
    expect(refused(0).text).toBe('The server cannot be reached.');
    const codecs = { type: 'mediaError', details: 'manifestIncompatibleCodecsError' } as never;
    expect(describeHlsError(codecs)).toMatchObject({ retry: 'never', elsewhere: 'cannot' });
  });
});
