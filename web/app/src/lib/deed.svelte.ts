import { say } from './announce.svelte';
import { failureFrom, type Failure } from './api';

// What the reader asks the server to do, one at a time: its failure stays until the next.
export class Deed {
  failure = $state.raw<Failure | undefined>(undefined);
  busy = $state(false);

  // Whether it was done; `done` is spoken then.
  async run(work: () => Promise<unknown>, done = ''): Promise<boolean> {
    this.failure = undefined;
    this.busy = true;
    try {
      await work();
      if (done) say(done);
    } catch (error) {
      this.failure = failureFrom(error);
    }
    this.busy = false;
    return this.failure === undefined;
  }
}
