// The page's side of the search worker: one request at a time, with a timeout that begins when the worker starts on it.
// Its trusted-types policy allows only a file of our own.
import type { SearchAnswer, SearchRequest } from './matching.ts'
import workerUrl from './search.worker.ts?worker&url'

const LIMIT_MS = 200
/** For a worker that does not start: the machine is busy, or loading failed. */
const BEGIN_MS = 15_000

class TooSlow extends Error {}

interface Policy {
  createScriptURL(url: string): string
}
interface PolicyFactory {
  createPolicy(name: string, rules: Policy): Policy
}

const OWN: Policy = {
  createScriptURL(url) {
    if (new URL(url, location.href).origin !== location.origin) throw new TypeError('not ours')
    return url
  },
}
let policy: Policy | undefined

function startWorker(): Worker {
  const { trustedTypes } = globalThis as { trustedTypes?: PolicyFactory }
  policy ??= trustedTypes?.createPolicy('berth-search', OWN) ?? OWN
  return new Worker(policy.createScriptURL(workerUrl), { type: 'module' })
}

interface Searcher {
  search(request: Omit<SearchRequest, 'id'>): Promise<SearchAnswer['found']>
  close(): void
}

/** A later search replaced it. */
class Abandoned extends Error {}

export function createSearcher(): Searcher {
  let worker: Worker | undefined
  let last = 0
  let abandon = (): void => {}
  const stop = (): void => {
    worker?.terminate()
    worker = undefined
  }
  return {
    close() {
      abandon()
      stop()
    },
    search: (request) =>
      new Promise((resolve, reject) => {
        abandon()
        const id = ++last
        worker ??= startWorker()
        const fail = (error: Error): void => {
          clearTimeout(timer)
          stop()
          reject(error)
        }
        let timer = setTimeout(() => fail(new Error('The search did not begin.')), BEGIN_MS)
        abandon = () => {
          clearTimeout(timer)
          reject(new Abandoned())
        }
        worker.onerror = (event) => {
          event.preventDefault()
          fail(new Error('The search could not be run.'))
        }
        worker.onmessage = ({ data }: MessageEvent<SearchAnswer | { began: number }>) => {
          // the worker may still be reporting an abandoned search
          if ('found' in data && data.id === id) {
            clearTimeout(timer)
            resolve(data.found)
          } else if ('began' in data && data.began === id) {
            clearTimeout(timer)
            timer = setTimeout(
              () => fail(new TooSlow('This expression takes too long; make it simpler.')),
              LIMIT_MS,
            )
          }
        }
        worker.postMessage({ ...request, id } satisfies SearchRequest)
      }),
  }
}
