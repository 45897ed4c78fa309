/** What is kept up to date only while a page shows it and that page can be seen. */
export abstract class Shown {
  #pages = 0;
  #seen = true;

  /** A page shows it; the function that is returned says that it does no more. */
  use(): () => void {
    this.#pages += 1;
    this.#follow();
    let used = true;
    return () => {
      if (used) this.#pages -= 1;
      used = false;
      this.#follow();
    };
  }

  /** Whether the page can be seen at all. */
  setSeen(seen: boolean): void {
    this.#seen = seen;
    this.#follow();
  }

  /** Begins to keep it up to date, or goes on; or ends that. */
  protected abstract follow(shown: boolean): void;

  #follow(): void {
    this.follow(this.#pages > 0 && this.#seen);
  }
}
