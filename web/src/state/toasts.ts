/**
 * Short messages about what has just happened, e.g. that a session was ended. Each goes away by itself.
 */
import { Store } from './store';

export interface Toast {
  id: number;
  kind: 'good' | 'bad';
  text: string;
}

const SHOWN_MS = 6_000;
const SHOWN_MAX = 4;

export class Toasts {
  readonly store = new Store<readonly Toast[]>([]);
  #next = 1;

  show(kind: Toast['kind'], text: string): void {
    const id = this.#next;
    this.#next += 1;
    this.store.update((toasts) => [...toasts, { id, kind, text }].slice(-SHOWN_MAX));
    setTimeout(() => this.dismiss(id), SHOWN_MS);
  }

  dismiss(id: number): void {
    this.store.update((toasts) => toasts.filter((toast) => toast.id !== id));
  }
}
