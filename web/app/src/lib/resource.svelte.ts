import { failureFrom, type Failure } from './api';
import { session } from './session.svelte';

// Something the server knows, as it was when it was last asked. The newest question wins.
export class Resource<T> {
  data = $state.raw<T | undefined>(undefined);
  failure = $state.raw<Failure | undefined>(undefined);
  loading = $state(false);
  #turn = 0;

  constructor(private readonly load: () => Promise<T>) {}

  async refresh(): Promise<void> {
    const turn = ++this.#turn;
    this.loading = true;
    try {
      const data = await this.load();
      if (turn !== this.#turn) return;
      this.data = data;
      this.failure = undefined;
    } catch (error) {
      if (turn !== this.#turn) return;
      this.failure = failureFrom(error);
    } finally {
      if (turn === this.#turn) this.loading = false;
    }
  }

  // Again and again while the page is looked at, until the function returned is called. A route that is not there is
  // not asked again, and one that wants a login only after it: servers count failures and ban who makes many. In an
  // effect, a new login begins anew.
  poll(milliseconds: number): () => void {
    void session.token;
    let stopped = false;
    let timer = 0;
    const again = async () => {
      if (document.visibilityState === 'visible') await this.refresh();
      if (!stopped && !this.failure?.unavailable && !this.failure?.wantsLogin) timer = window.setTimeout(again, milliseconds);
    };
    void again();
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }
}
