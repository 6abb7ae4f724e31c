// What npm start says about the recipes of its server.
import { expect, it } from 'vitest'
import { describeRecipes } from '../scripts/dev-recipes.ts'

const part = (name: string, version: string | null, reason: string | null = null) => ({
  name,
  version,
  reason,
})
const CADDY = part('caddy', '2.11.7')

it('names the recipes that are ready', () => {
  const parts = [part('docker', '28.2'), part('git', '2.39'), part('users', 'useradd'), CADDY]
  expect(describeRecipes({ recipes: ['docker', 'manual'], parts })).toEqual([
    'docker: ready',
    'manual: ready',
  ])
})

it('says why one is not, and what to do', () => {
  const why =
    'No Docker engine was found at /var/run/docker.sock. Install Docker 20.10 or newer, or use the manual recipe.'
  const parts = [part('docker', null, why), part('git', '2.39'), part('users', null), CADDY]
  expect(describeRecipes({ recipes: ['manual'], parts })).toEqual([
    `docker: not ready. ${why}`,
    'manual: ready', // without root, commands run as the developer
  ])
})

it('names every part that is missing, and the proxy', () => {
  const parts = [
    part('docker', '28.2'),
    part('git', null),
    part('users', null, 'The agent does not run as root and may not create accounts.'),
    part('caddy', null, 'Caddy is not installed: services cannot be routed.'),
  ]
  expect(describeRecipes({ recipes: ['docker'], parts })).toEqual([
    'docker: ready',
    'manual: not ready. git was not found. Install git. The agent does not run as root and may not create accounts. Run npm start as root, or install useradd.',
    'addresses: not ready. Caddy is not installed: services cannot be routed.',
  ])
})
