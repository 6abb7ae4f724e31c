// Requests: each gets exactly one answer in bounded time, even if its answerer fails or hangs.

import { DAEMON } from '@berth/shared'
import { RequestErrorCode, RequestSchema, type Response } from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { silentLog } from '../log.ts'
import { BulkLine } from './bulk.ts'
import { type Answerer, PendingRequests } from './requests.ts'

const ask = (requestId: string, over: MessageInitShape<typeof RequestSchema> = {}) =>
  create(RequestSchema, { requestId, body: { case: 'collectFacts', value: {} }, ...over })
function openRequests(collectFacts: Answerer) {
  const sent: Response[] = []
  const bulk = new BulkLine(() => {
    throw new Error('nothing is sent here')
  })
  const requests = new PendingRequests({ collectFacts }, silentLog, bulk, (response) =>
    sent.push(response),
  )
  const words = () =>
    sent.map(({ requestId, body }) =>
      body.case === 'error' ? `${requestId} ${body.value.code}` : `${requestId} ${body.case}`,
    )
  return { requests, words }
}
const facts = { case: 'facts' as const, value: {} }
const never = () => new Promise<never>(() => {})

test('an answer, and the same answer to the same question, asked of nobody twice', async () => {
  let asked = 0
  const { requests, words } = openRequests(() => {
    asked++
    return Promise.resolve(facts)
  })
  await requests.answer(ask('a'))
  await requests.answer(ask('a'))
  expect([words(), asked]).toEqual([['a facts', 'a facts'], 1])
})

test('unknown kinds are refused, failures told without their details', async () => {
  const { requests, words } = openRequests(() => Promise.reject(new Error('secret detail')))
  await requests.answer(ask('a', { body: { case: 'listContainers', value: {} } }))
  await requests.answer(ask('b', { body: { case: undefined } }))
  await requests.answer(ask('c'))
  const { UNSUPPORTED, INTERNAL } = RequestErrorCode
  expect(words()).toEqual([`a ${UNSUPPORTED}`, `b ${UNSUPPORTED}`, `c ${INTERNAL}`])
})

test('a deadline and a cancel end a question that nobody answers', async () => {
  const signals: AbortSignal[] = []
  const { requests, words } = openRequests((_request, signal) => {
    signals.push(signal)
    return never()
  })
  await requests.answer(ask('late', { deadline: durationFromMs(5) }))
  const canceled = requests.answer(ask('canceled'))
  requests.cancel('canceled')
  await canceled
  const { DEADLINE, CANCELED } = RequestErrorCode
  expect(words()).toEqual([`late ${DEADLINE}`, `canceled ${CANCELED}`])
  expect(signals.every((signal) => signal.aborted)).toBe(true)
})

test('too many questions at once: the next one is told so', async () => {
  const { requests, words } = openRequests(never)
  const open = Array.from({ length: DAEMON.requestsInFlight }, (_, i) =>
    requests.answer(ask(`q${i}`)),
  )
  await requests.answer(ask('more'))
  expect(words()).toEqual([`more ${RequestErrorCode.TOO_MANY}`])
  requests.close()
  await Promise.all(open)
})
