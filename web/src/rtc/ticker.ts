/**
 * A clock for the test picture, in a worker: timers of a page that is not in sight tick once a second only,
 * and one who publishes the picture looks at it in another tab.
 */

let timer: ReturnType<typeof setInterval> | undefined;

/** Takes the milliseconds between two ticks. */
addEventListener('message', (event: MessageEvent<number>) => {
  clearInterval(timer);
  timer = setInterval(() => postMessage(null), event.data);
});
