"""Departments: what workspaces are grouped by."""

from msgspec import Struct, structs

from stoker.domain.errors import ErrorCode, StokerError, exists, not_found
from stoker.domain.identity import Department
from stoker.domain.listing import Listing, Window
from stoker.domain.names import check_slug
from stoker.domain.permissions import Action, Actor
from stoker.services.context import Context, authorise, record
from stoker.services.once import Once, only_once
from stoker.store import counters, departments
from stoker.store.base import Transaction


class NewDepartment(Struct, frozen=True, kw_only=True):
    name: str
    description: str = ""


class Departments:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def browse(self, actor: Actor, text: str, window: Window) -> Listing[Department]:
        authorise(actor, Action.DEPARTMENT_READ)
        return await self._context.store.read(lambda tx: departments.browse(tx, text, window))

    async def read(self, actor: Actor, name: str) -> Department:
        authorise(actor, Action.DEPARTMENT_READ)
        return await self._context.store.peek(lambda tx: _found(tx, name))

    async def create(self, actor: Actor, new: NewDepartment, once: Once | None = None) -> Department:
        authorise(actor, Action.DEPARTMENT_CREATE)
        check_slug(new.name, "name")

        def change(transaction: Transaction) -> Department:
            if departments.find(transaction, new.name):
                raise exists("department", new.name)
            now = self._context.clock.now()
            number = counters.advance(transaction, "department")
            department = Department(number, new.name, new.description, now, now, 1)
            departments.add(transaction, department)
            record(self._context, transaction, actor, Action.DEPARTMENT_CREATE, new.name)
            return department

        return await self._context.store.write(only_once(self._context, actor, once, Department, change))

    async def describe(self, actor: Actor, name: str, description: str) -> Department:
        authorise(actor, Action.DEPARTMENT_UPDATE)

        def change(transaction: Transaction) -> Department:
            department = _found(transaction, name)
            now = self._context.clock.now()
            departments.replace(transaction, structs.replace(department, description=description, updated_at=now))
            record(self._context, transaction, actor, Action.DEPARTMENT_UPDATE, name)
            return _found(transaction, name)

        return await self._context.store.write(change)

    async def delete(self, actor: Actor, name: str) -> None:
        authorise(actor, Action.DEPARTMENT_DELETE)

        def change(transaction: Transaction) -> None:
            department = _found(transaction, name)
            if held := departments.workspaces(transaction, department.id):
                message = f'Department "{name}" still has workspaces ({held}). Move or delete them first.'
                raise StokerError(ErrorCode.STATE_FORBIDS, message)
            departments.delete(transaction, department.id)
            record(self._context, transaction, actor, Action.DEPARTMENT_DELETE, name)

        await self._context.store.write(change)


def _found(transaction: Transaction, name: str) -> Department:
    department = departments.find(transaction, name)
    if department is None:
        raise not_found("department", name)
    return department
