// What npm start says about the recipes of its server.
import { expect, it } from 'vitest'
import { describeRecipes } from '../../scripts/dev/recipes.ts'

const part = (name: string, version: string | null, reason: string | null = null) => ({
  name,
  version,
  reason,
})
const CADDY = part('caddy', '2.11.7')

it('names the recipes that are ready', () => {
  const parts = [part('docker', '28.2'), part('git', '2.39'), part('users', 'useradd'), CADDY]
  expect(describeRecipes({ recipes: ['docker', 'manual'], parts })).toBe(
    'docker and manual are ready',
  )
})

it('says how to get the other', () => {
  const why = 'No Docker engine was found at /var/run/docker.sock.'
  const parts = [part('docker', null, why), part('git', '2.39'), part('users', null), CADDY]
  // without root, commands of the manual recipe run as the developer
  expect(describeRecipes({ recipes: ['manual'], parts })).toBe(
    'manual is ready; docker is not: No Docker engine answers; as root, npm start -- --docker runs a private one.',
  )
})

it('names every part that is missing, and the proxy', () => {
  const parts = [
    part('docker', '28.2'),
    part('git', null),
    part('users', null, 'The agent does not run as root and may not create accounts.'),
    part('caddy', null, 'Caddy is not installed: services cannot be routed.'),
  ]
  expect(describeRecipes({ recipes: ['docker'], parts })).toBe(
    'docker is ready; manual is not: Install git. Run npm start as root, or install useradd.; Addresses do not work. Caddy is not installed: services cannot be routed.',
  )
})
