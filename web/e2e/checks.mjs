/**
 * What the console must do in a real browser against a real server with the demo channel.
 *
 * Each check is `(test) => Promise`, in the order in which they run; `test` has page, url, api, agent and
 * film (a file that the server may play).
 */
import { expectPlayback, inkOfCharts, until, videoState } from './browser.mjs';
import { RECORDING_CHECKS } from './recording-checks.mjs';

const rowOf = (page, key) => page.locator(`.table-streams tr[data-stream="${key}"]`);

async function listsTheStream({ page, url, api }) {
  const { demo_stream: demo } = await api('/server');
  if (demo === null) throw new Error('the server has no demo channel: start it with `millstream demo`');
  await page.goto(`${url}#/`);
  const row = rowOf(page, demo);
  await row.waitFor();
  const stream = await until('the server knows the picture of the demo channel', async () => {
    const { streams } = await api('/streams');
    return streams.find((candidate) => `${candidate.app}/${candidate.name}` === demo && candidate.video?.width > 0);
  });
  const expected = `${stream.video.codec} · ${stream.video.width}×${stream.video.height}`;
  await until(`the list shows "${expected}"`, async () => (await row.innerText()).includes(expected));
  await until('the list shows a bit rate', async () => /\d\s*[kM]bit\/s/.test(await row.innerText()));
  await until('the worker loads are shown', async () => (await page.getByRole('meter').count()) >= 1);
}

async function playsOnTheOverview({ page }) {
  return expectPlayback(page);
}

async function playsOverHttp({ page, url, api }) {
  await page.goto(`${url}#/stream/${(await api('/server')).demo_stream}`);
  await page.getByTestId('transport-http').click();
  const played = await expectPlayback(page);
  await until('the figures count decoded frames', async () => Number((await page.locator('[data-stat=decoded]').innerText()).replaceAll(',', '')) > 0);
  return played;
}

async function playsOverWebSocket({ page }) {
  const opened = page.waitForEvent('websocket');
  await page.getByTestId('transport-ws').click();
  const socket = await opened;
  if (!/^ws:.*\.flv/.test(socket.url())) throw new Error(`unexpected WebSocket ${socket.url()}`);
  const played = await expectPlayback(page);
  await page.getByTestId('transport-http').click();
  await expectPlayback(page);
  return played;
}

/** Ends the session of this very page: its row goes, the player says so and comes back by itself. */
async function kicksASession({ page, api, agent }) {
  const own = await until('the server lists the player of this page', async () => {
    const { sessions } = await api('/sessions?role=player&limit=1000');
    const found = sessions.filter((session) => session.user_agent?.includes(agent));
    return found.length === 1 ? found[0] : null;
  });
  const row = page.locator(`.session-row[data-session="${own.id}"]`);
  await row.getByRole('button', { name: /^Kick/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Kick' }).click();
  await until('a message says that it was kicked', async () => (await page.getByTestId('toasts').innerText()).includes('was kicked'));
  await row.waitFor({ state: 'detached' });
  const { sessions } = await api('/sessions?limit=1000');
  if (sessions.some((session) => session.id === own.id)) throw new Error(`session ${own.id} is still there`);
  await until('the player counts a reconnect', async () => Number(await page.locator('[data-stat=reconnects]').innerText()) >= 1);
  await expectPlayback(page);
}

async function pausesAndResumes({ page }) {
  await page.getByRole('button', { name: 'Pause' }).click();
  await until('the player is paused', async () => (await videoState(page)).phase === 'paused');
  await page.locator('.controls').getByRole('button', { name: 'Play' }).click();
  await expectPlayback(page);
}

const rows = (page) => page.locator('.session-row');

async function filtersSessions({ page, url, agent }) {
  await page.goto(`${url}#/sessions?role=publisher`);
  await rows(page).first().waitFor();
  const roles = await page.locator('.session-row .role').allInnerTexts();
  if (roles.some((role) => role !== 'Publisher')) throw new Error(`filtered for publishers, shows ${roles}`);
  await page.getByLabel('Search').fill(`${agent} and nobody`);
  await page.getByText('No session matches').waitFor();
  await page.getByRole('button', { name: 'Show all sessions' }).click();
  await rows(page).first().waitFor();
}

/**
 * The publisher of the demo channel: figures that move, its details, charts of it, and the same from a link.
 */
async function showsASessionLive({ page, url, api }) {
  const { demo_stream: demo } = await api('/server');
  const { sessions } = await api(`/sessions?role=publisher&stream=${demo}`);
  const [{ id, address }] = sessions;
  await page.goto(`${url}#/sessions`);
  await until('figures come by WebSocket', async () => (await page.getByTestId('live').getAttribute('data-state')) === 'live');
  const row = page.locator(`.session-row[data-session="${id}"]`);
  await until('the row has the address', async () => (await row.innerText()).includes(address));
  const rate = () => row.locator('.cell-rate').innerText();
  const before = await until('the row has a rate', async () => (/\d\s*[kM]bit\/s/.test(await rate()) ? rate() : null));
  await until('the rate moves', async () => (await rate()) !== before);
  await row.locator('.cell-rate').click();
  const panel = page.getByTestId('session-panel');
  await until('the details have the address and totals', async () => {
    const text = await panel.innerText();
    return text.includes(address) && /Transferred\s+[\d.]+\s*[kMG]B/.test(text);
  });
  await until('the chart of the rate has a line', async () => (await page.evaluate(inkOfCharts, '.session-panel'))[0] > 20);
  const link = page.url();
  await page.keyboard.press('Escape');
  await panel.waitFor({ state: 'detached' });
  await page.goto('about:blank');
  await page.goto(link);
  await until('a link leads to the details', async () => (await panel.innerText()).includes(address));
}

/** Searching by what only the management API knows. */
async function findsASessionByItsProgram({ page, url, api }) {
  const { sessions } = await api('/sessions?role=publisher');
  const { id, user_agent: program } = sessions.find(({ user_agent }) => user_agent !== null);
  await page.goto(`${url}#/sessions`);
  await page.getByLabel('Search').fill(program.slice(0, 10).toUpperCase());
  await until('the one with this program is listed', async () => (await rows(page).count()) >= 1 && (await page.locator(`.session-row[data-session="${id}"]`).count()) === 1);
  await page.getByLabel('Search').fill('');
}

async function showsAStreamLive({ page, url, api }) {
  const { demo_stream: demo } = await api('/server');
  await page.goto(`${url}#/stream/${demo}`);
  const charts = page.getByRole('region', { name: 'Recent minutes' });
  await until('the charts show what comes in', async () => /In\s+[\d.]+\s*[kM]bit\/s/.test(await charts.innerText()));
  await until('the charts have lines', async () => {
    const ink = await page.evaluate(inkOfCharts, 'section[aria-label="Recent minutes"]');
    return ink.length === 3 && ink[0] > 20;
  });
}

/**
 * A file of the server and one that is not there. Refused are a path that leads elsewhere and a private
 * address, which a server does not reach unless it is told to.
 */
async function playsAChannel({ page, url, api, film }) {
  await page.goto(`${url}#/sources`);
  await page.getByRole('button', { name: 'Add channel' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Stream').fill('e2e-channel');
  await dialog.getByLabel('Playlist').fill(`${film}\n../../etc/passwd`);
  await dialog.getByRole('button', { name: 'Add channel' }).click();
  await until('a path that leads elsewhere is refused', async () => (await page.getByTestId('refusal').innerText()).includes('line 2'));
  await dialog.getByLabel('Playlist').fill(`${film}\nabsent.mp4\nhttp://127.0.0.1:9/private.mp4`);
  await dialog.getByRole('button', { name: 'Add channel' }).click();
  await until('a private address is refused', async () => /line 3.*public/s.test(await page.getByTestId('refusal').innerText()));
  await dialog.getByLabel('Playlist').fill(`${film}\nabsent.mp4`);
  await dialog.getByRole('button', { name: 'Add channel' }).click();
  const row = page.locator('tr[data-channel="live/e2e-channel"]');
  await row.waitFor();
  await until('it plays the file', async () => /Playing/.test(await row.innerText()) && (await row.innerText()).includes(film));
  const position = async () => Number(await row.getByRole('progressbar').getAttribute('aria-valuenow'));
  const before = await position();
  await until('the position moves', async () => (await position()) !== before);
  const errors = () => api('/channels').then(({ channels }) => channels.find(({ name }) => name === 'e2e-channel').items.map((item) => item.last_error));
  await until('the item that cannot be played is told', async () => (await errors()).filter((error) => error !== null).length === 1);
  await until('and shown', async () => /[1-9]/.test(await row.locator('.cell-trouble').innerText()));
  await row.getByRole('link').click();
  await page.locator('.playlist .is-here').waitFor();
  await page.getByTestId('transport-http').click();
  const played = await expectPlayback(page);
  await page.getByRole('button', { name: /^Skip/ }).click();
  await until('a message says that it goes on', async () => (await page.getByTestId('toasts').innerText()).includes('next item'));
  await expectPlayback(page);
  await page.getByRole('button', { name: /^Remove/ }).click();
  await dialog.getByRole('button', { name: 'Remove' }).click();
  await page.locator('.playlist').waitFor({ state: 'detached' });
  await page.goto(`${url}#/sources`);
  await page.getByText('No channel yet').waitFor();
  return played;
}

async function refusesAPrivatePull({ page, url }) {
  await page.goto(`${url}#/sources`);
  await page.getByRole('button', { name: 'Add pull' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Stream').fill('e2e-pull');
  await dialog.getByLabel('Address').fill('rtmp://user:secret@127.0.0.1:9/live/show');
  await dialog.getByRole('button', { name: 'Add pull' }).click();
  const refused = page.getByTestId('refusal');
  const row = page.locator('tr[data-pull="live/e2e-pull"]');
  await refused.or(row).first().waitFor();
  // An address that has to be looked up is refused when it is tried.
  if (await refused.isVisible()) {
    await page.keyboard.press('Escape');
    return;
  }
  await until('it says why it does not connect', async () => /private|not public|refused|forbidden|not allowed/i.test(await row.innerText()));
  if ((await page.content()).includes('secret')) throw new Error('the password is shown');
  await row.getByRole('button', { name: /^Remove/ }).click();
  await dialog.getByRole('button', { name: 'Remove' }).click();
  await row.waitFor({ state: 'detached' });
}

async function showsWorkers({ page, url, api }) {
  const { workers } = await api('/workers');
  await page.goto(`${url}#/workers`);
  await until('every worker has a card', async () => (await page.locator('.worker').count()) === workers.length);
  await until('loop times are shown', async () => /Loop time p99\s*\d/.test(await page.locator('.worker').first().innerText()));
}

async function publishPageHasRealUrl({ page, url, api }) {
  const { endpoints, publish } = await api('/server');
  const base = endpoints.rtmp[0];
  await page.goto(`${url}#/publish`);
  const stream = page.getByRole('textbox', { name: 'Stream', exact: true });
  await page.getByRole('textbox', { name: 'App', exact: true }).fill('studio');
  await stream.fill('camera 1');
  await page.getByRole('textbox', { name: /^Token/ }).fill('a&b');
  const shown = (id) => page.getByTestId(id).innerText();
  await until('the URL is filled in', async () => (await shown('publish-url')) === `${base}/studio/camera 1?token=a%26b`);
  if ((await shown('obs-server')) !== `${base}/studio`) throw new Error(`OBS server is ${await shown('obs-server')}`);
  if ((await shown('obs-key')) !== 'camera 1?token=a%26b') throw new Error(`OBS key is ${await shown('obs-key')}`);
  if (!(await shown('ffmpeg-test')).includes(`'${base}/studio/camera 1?token=a%26b'`)) throw new Error('the ffmpeg command lacks the quoted URL');
  if ((await page.getByTestId('note-loopback').count()) !== Number(publish.loopback_only)) throw new Error('wrong note about publishing from this machine only');
  await stream.fill('a/b');
  await page.getByText('Must not contain “/”.').waitFor();
}

async function watchPagePlaysWithoutTheApi({ page, url, api }) {
  const { demo_stream: demo } = await api('/server');
  const asked = [];
  // First away from the page before, which asks once a second.
  await page.goto('about:blank');
  await page.route('**/api/**', (route) => {
    asked.push(route.request().url());
    return route.abort();
  });
  await page.goto(`${url}#/watch/${demo}`);
  const played = await expectPlayback(page);
  await page.unroute('**/api/**');
  if (asked.length > 0) throw new Error(`the watch page asked the management API: ${asked[0]}`);
  return played;
}

async function absentStreamIsExplained({ page, url }) {
  await page.goto(`${url}#/stream/live/nobody-publishes-this`);
  await page.getByText('Nobody publishes this stream', { exact: true }).waitFor();
  await page.getByText('ffmpeg -re').first().waitFor();
}

async function survivesAServerThatIsAway({ page, url, api }) {
  const { demo_stream: demo } = await api('/server');
  await page.goto(`${url}#/`);
  await rowOf(page, demo).waitFor();
  await page.route('**/api/**', (route) => route.abort());
  await page.getByText('Reconnecting.').waitFor();
  if (!(await rowOf(page, demo).isVisible())) throw new Error('the list went away with the server');
  await page.unroute('**/api/**');
  await page.getByText('Reconnecting.').waitFor({ state: 'detached' });
}

async function explainsRefusals({ page, url }) {
  const answer = (status, message) => (route) =>
    route.fulfill({ status, contentType: 'application/json', body: JSON.stringify({ error: { code: 'refused', message } }) });
  await page.route('**/api/**', answer(403, 'this machine only'));
  await page.goto('about:blank');
  await page.goto(`${url}#/`);
  await page.getByText('not allowed from here').waitFor();
  await page.getByText('this machine only').waitFor();
  await page.unroute('**/api/**');
  await page.route('**/api/**', (route) => {
    if (route.request().headers()['authorization'] === 'Bearer right') return route.continue();
    return answer(401, 'token missing')(route);
  });
  await page.goto('about:blank');
  await page.goto(`${url}#/`);
  await page.getByText('needs a token').waitFor();
  await page.getByLabel('Management token').fill('wrong');
  await page.getByRole('button', { name: 'Use this token' }).click();
  await page.getByText('was not accepted').waitFor();
  await page.getByLabel('Management token').fill('right');
  await page.getByRole('button', { name: 'Use this token' }).click();
  await page.locator('.table-streams').waitFor();
  await page.unroute('**/api/**');
  await page.evaluate(() => sessionStorage.clear());
}

export const CHECKS = [
  ['the overview lists the stream with codec and resolution', listsTheStream],
  ['the overview plays the demo channel at once', playsOnTheOverview],
  ['the stream page plays by HTTP-FLV', playsOverHttp],
  ['the stream page plays by WebSocket-FLV', playsOverWebSocket],
  ['pause and resume', pausesAndResumes],
  ['kicking a session', kicksASession],
  ['the sessions page filters', filtersSessions],
  ['a session is shown live, with details and charts', showsASessionLive],
  ['a session is found by its program', findsASessionByItsProgram],
  ['a stream is shown live', showsAStreamLive],
  ['a channel is added, played, skipped and removed', playsAChannel],
  ['a pull of a private address does not connect', refusesAPrivatePull],
  ...RECORDING_CHECKS,
  ['the workers page shows each worker', showsWorkers],
  ['the publish page shows the real address', publishPageHasRealUrl],
  ['the watch page plays without the management API', watchPagePlaysWithoutTheApi],
  ['a stream that nobody publishes is explained', absentStreamIsExplained],
  ['a server that is away does not blank the page', survivesAServerThatIsAway],
  ['refusals are explained and a token is accepted', explainsRefusals],
];
