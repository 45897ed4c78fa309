/**
 * The thread behind the page: joins connection and engine to the messages from and to the page.
 */
import { Engine } from './engine';
import { StatsLink } from './link';
import type { Report, Request } from './protocol';

const engine = new Engine(() => performance.now());
const link = new StatsLink({
  open: (url, protocols) => new WebSocket(url, protocols),
  fetch: (input, init) => fetch(input, init),
  clock: () => performance.now(),
  onMessage: (bytes) => report(engine.message(bytes)),
  onLink: (link) => report({ kind: 'link', link }),
});

addEventListener('message', ({ data }: MessageEvent<Request>) => {
  switch (data.kind) {
    case 'connect':
      return link.connect(data);
    case 'disconnect':
      return link.disconnect();
    case 'query':
      return report(engine.query(data.query));
    case 'hold':
      return report(engine.hold(data.held));
    case 'watch':
      return report(engine.watch(data.watched));
    case 'rows':
      return report(engine.rows(data.ids));
  }
});

/**
 * Columns are copied by this, which takes less than a millisecond for ten thousand sessions: the engine goes
 * on using its own.
 */
function report(report: Report | null): void {
  if (report !== null) postMessage(report);
}
