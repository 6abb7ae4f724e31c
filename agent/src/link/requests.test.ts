// Questions: each gets exactly one answer, in bounded time, whatever the one who knows it does.

import { DAEMON } from '@berth/shared'
import { RequestErrorCode, RequestSchema, type Response } from '@berth/shared/wire'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { silentLog } from '../log.ts'
import { BulkLine } from './bulk.ts'
import { type Answerer, RequestDesk } from './requests.ts'

const ask = (requestId: string, over: MessageInitShape<typeof RequestSchema> = {}) =>
  create(RequestSchema, { requestId, body: { case: 'collectFacts', value: {} }, ...over })
function openDesk(collectFacts: Answerer) {
  const sent: Response[] = []
  const bulk = new BulkLine(() => {
    throw new Error('nothing is sent here')
  })
  const desk = new RequestDesk({ collectFacts }, silentLog, bulk, (response) => sent.push(response))
  const words = () =>
    sent.map(({ requestId, body }) =>
      body.case === 'error' ? `${requestId} ${body.value.code}` : `${requestId} ${body.case}`,
    )
  return { desk, words }
}
const facts = { case: 'facts' as const, value: {} }
const never = () => new Promise<never>(() => {})

test('an answer, and the same answer to the same question, asked of nobody twice', async () => {
  let asked = 0
  const { desk, words } = openDesk(() => {
    asked++
    return Promise.resolve(facts)
  })
  await desk.answer(ask('a'))
  await desk.answer(ask('a'))
  expect([words(), asked]).toEqual([['a facts', 'a facts'], 1])
})

test('unknown kinds are refused, failures told without their details', async () => {
  const { desk, words } = openDesk(() => Promise.reject(new Error('secret detail')))
  await desk.answer(ask('a', { body: { case: 'listContainers', value: {} } }))
  await desk.answer(ask('b', { body: { case: undefined } }))
  await desk.answer(ask('c'))
  const { UNSUPPORTED, INTERNAL } = RequestErrorCode
  expect(words()).toEqual([`a ${UNSUPPORTED}`, `b ${UNSUPPORTED}`, `c ${INTERNAL}`])
})

test('a deadline and a cancel end a question that nobody answers', async () => {
  const signals: AbortSignal[] = []
  const { desk, words } = openDesk((_request, signal) => {
    signals.push(signal)
    return never()
  })
  await desk.answer(ask('late', { deadline: durationFromMs(5) }))
  const canceled = desk.answer(ask('canceled'))
  desk.cancel('canceled')
  await canceled
  const { DEADLINE, CANCELED } = RequestErrorCode
  expect(words()).toEqual([`late ${DEADLINE}`, `canceled ${CANCELED}`])
  expect(signals.every((signal) => signal.aborted)).toBe(true)
})

test('too many questions at once: the next one is told so', async () => {
  const { desk, words } = openDesk(never)
  const open = Array.from({ length: DAEMON.requestsInFlight }, (_, i) => desk.answer(ask(`q${i}`)))
  await desk.answer(ask('more'))
  expect(words()).toEqual([`more ${RequestErrorCode.TOO_MANY}`])
  desk.close()
  await Promise.all(open)
})
