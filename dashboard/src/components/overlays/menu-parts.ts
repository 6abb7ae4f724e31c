// The items of the library, given by the list of a menu: its entries are part of the first load, the library is not.
import { type ComponentType, createContext, type ReactElement, type ReactNode } from 'react'

export interface MenuParts {
  Item: ComponentType<{ className?: string; onClick?(): void; children: ReactNode }>
  LinkItem: ComponentType<{ className?: string; closeOnClick: boolean; render: ReactElement }>
}

export const MenuContext = createContext<MenuParts | null>(null)
