// Deliveries that no forge signed, or that were sent before.
import { createHmac, randomUUID } from 'node:crypto'
import type { ProjectCreated, WebhookAnswer } from '@berth/shared/api'
import {
  fixture,
  signAs,
} from '../../../control-plane/src/domain/forges/payloads/fixtures.testing.ts'
import { type Case, must } from '../case.ts'
import type { AttackedInstallation } from '../target.ts'

const made = new WeakMap<AttackedInstallation, Promise<[ProjectCreated, ProjectCreated]>>()

const projects = (w: AttackedInstallation): Promise<[ProjectCreated, ProjectCreated]> => {
  const known = made.get(w) ?? Promise.all([w.created('hooked'), w.created('other-hooked')])
  made.set(w, known)
  return known
}

const { headers, body } = fixture('github', 'push')
const sign = (secret: string, id: string = randomUUID()): Record<string, string> =>
  signAs('github', headers, body, { secret, id, now: Date.now() })

async function send(w: AttackedInstallation, signed: Record<string, string>, text = body) {
  const [{ id }] = await projects(w)
  return w.api(undefined, 'POST', `/webhooks/${id}`, text, {
    'content-type': 'application/json',
    ...signed,
  })
}

const forged = (
  title: string,
  make: (secret: string, other: string) => { signed: Record<string, string>; text?: string },
): Case => ({
  subject: 'webhooks',
  title,
  isImportant: title.includes('changed'),
  async control(w) {
    const [{ webhook_secret }] = await projects(w)
    const { status, text } = await send(w, sign(webhook_secret))
    must(status === 202, `an honest delivery is answered ${status} ${text.slice(0, 100)}`)
  },
  async attack(w) {
    const [one, other] = await projects(w)
    const { signed, text } = make(one.webhook_secret, other.webhook_secret)
    const answer = await send(w, signed, text)
    if (answer.status < 400) return `answered ${answer.status}`
    return answer.text.includes(one.webhook_secret) ? 'the answer shows the secret' : undefined
  },
})

const without = (signed: Record<string, string>, ...names: string[]) =>
  Object.fromEntries(Object.entries(signed).filter(([name]) => !names.includes(name)))

export const WEBHOOKS: Case[] = [
  forged('a delivery without a signature is refused', (secret) => ({
    signed: without(sign(secret), 'x-hub-signature-256'),
  })),
  forged('a delivery with an empty signature is refused', (secret) => ({
    signed: { ...sign(secret), 'x-hub-signature-256': '' },
  })),
  forged('a delivery signed with another project’s secret is refused', (_, other) => ({
    signed: sign(other),
  })),
  forged('a delivery that was changed after it was signed is refused', (secret) => ({
    signed: sign(secret),
    text: body.replace('refs/heads/', 'refs/heads/x'),
  })),
  forged('a cut signature is refused', (secret) => {
    const signed = sign(secret)
    return {
      signed: {
        ...signed,
        'x-hub-signature-256': String(signed['x-hub-signature-256']).slice(0, -2),
      },
    }
  }),
  forged('a weaker algorithm is refused', (secret) => ({
    signed: {
      ...without(sign(secret), 'x-hub-signature-256'),
      'x-hub-signature': `sha1=${createHmac('sha1', secret).update(body).digest('hex')}`,
    },
  })),
  {
    subject: 'webhooks',
    title: 'a pull request of a fork gets no environment before somebody approved its commit',
    isImportant: true,
    async control(w) {
      const [{ webhook_secret }] = await projects(w)
      must((await send(w, sign(webhook_secret))).status === 202, 'an honest delivery is refused')
    },
    async attack(w) {
      const [{ id, webhook_secret }] = await projects(w)
      for (const name of ['fork_opened', 'fork_deleted', 'fork_inside_fork']) {
        const fork = fixture('github', name)
        const o = { secret: webhook_secret, id: randomUUID(), now: Date.now() }
        const answer = await send(w, signAs('github', fork.headers, fork.body, o), fork.body)
        must(answer.status === 202, `${name}: ${answer.status}`)
      }
      const path = `/api/projects/${id}/environments`
      const list = JSON.parse((await w.api(w.fixture.token, 'GET', path)).text) as unknown[]
      return list.length > 0 ? `${list.length} environments` : undefined
    },
  },
  {
    subject: 'webhooks',
    title: 'a delivery sent twice does its work once',
    async control(w) {
      const [{ webhook_secret }] = await projects(w)
      must((await send(w, sign(webhook_secret))).status === 202, 'refused')
    },
    async attack(w) {
      const [{ webhook_secret }] = await projects(w)
      const signed = sign(webhook_secret)
      await send(w, signed)
      for (let n = 0; n < 5; n += 1) {
        const { outcome } = JSON.parse((await send(w, signed)).text) as WebhookAnswer
        if (outcome !== 'duplicate') return `the copy is ${outcome}`
      }
      return undefined
    },
  },
]
