// Loaded into a control plane before its program: answers its parent's questions about memory and the event loop, and
// writes profiles. The product contains none of this.
import { writeFileSync } from 'node:fs'
import { Session } from 'node:inspector/promises'
import { monitorEventLoopDelay } from 'node:perf_hooks'

const delay = monitorEventLoopDelay({ resolution: 10 })
delay.enable()
const session = new Session()
session.connect()

const answers = {
  memory: async () => {
    const before = process.memoryUsage.rss()
    for (let i = 0; i < 3; i += 1) {
      globalThis.gc?.()
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
    return { rss: before, ...afterCollection(process.memoryUsage()) }
  },
  loop: async () => {
    const seen = { p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 }
    delay.reset()
    return { ...seen, cpu: process.cpuUsage() }
  },
  'cpu-start': async () => {
    await session.post('Profiler.enable')
    await session.post('Profiler.start')
  },
  'cpu-stop': async ({ file }) => {
    const { profile } = await session.post('Profiler.stop')
    writeFileSync(file, JSON.stringify(profile))
  },
  'heap-start': async () => session.post('HeapProfiler.startSampling', { samplingInterval: 8_192 }),
  'heap-stop': async ({ file }) => {
    globalThis.gc?.()
    const { profile } = await session.post('HeapProfiler.stopSampling')
    writeFileSync(file, JSON.stringify(profile))
  },
}
const afterCollection = ({ rss, heapUsed, heapTotal, external, arrayBuffers }) => ({
  rssAfter: rss,
  heapUsed,
  heapTotal,
  external,
  arrayBuffers,
})

process.on('message', ({ id, ask, ...more }) => {
  answers[ask]?.(more).then((answer) => process.send?.({ id, answer: answer ?? {} }))
})
process.channel?.unref()
process.on('disconnect', () => process.exit(1))
