// Adds the features of the language and of Node.js that the client uses and Node 18 lacks, only where they are missing.
// Loaded first; the tests run every command of the bundled client under a real Node 18.

const fill = (target: object, name: string, value: unknown): void => {
  if (name in target) return
  Object.defineProperty(target, name, { value, writable: true, configurable: true })
}

const LONE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g

function anySignal(signals: Iterable<AbortSignal>): AbortSignal {
  const all = [...signals]
  const controller = new AbortController()
  const end = (event: { target: unknown }): void => {
    for (const one of all) one.removeEventListener('abort', end)
    controller.abort((event.target as AbortSignal).reason)
  }
  for (const target of all) {
    if (target.aborted) {
      end({ target })
      break
    }
    target.addEventListener('abort', end)
  }
  return controller.signal
}

fill(Array.prototype, 'toSorted', function (this: unknown[], compare?: () => number) {
  return [...this].sort(compare)
})
fill(String.prototype, 'isWellFormed', function (this: string) {
  return this.search(LONE) === -1
})
fill(String.prototype, 'toWellFormed', function (this: string) {
  return this.replace(LONE, '\uFFFD')
})
fill(AbortSignal, 'any', anySignal)
