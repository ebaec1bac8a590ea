"""The words that items are made from: a lexicon of plain English words, first names, and words built of syllables.

Built words ("velanto") make the supply of spellings endless, so that spelling and copying have to be learned piece by
piece instead of word by word.
"""

from __future__ import annotations

import random

LEXICON = """
acorn actor agent airport album alley almond amber anchor angle animal ankle apple apron arch arena arrow artist aspen
atlas autumn award bacon badge bagel bakery balcony ball bamboo banana band bank barn barrel basin basket beach
beacon bean bear beard beaver bed bee beetle bell belt bench berry bicycle bird biscuit bishop blanket blossom board
boat body bone bonfire book boot border bottle boulder bowl box bracelet branch brass bread breakfast breeze brick
bridge broom brother brush bubble bucket buckle bud buffalo bugle builder bull bus butter button cabin cable cactus
cake calendar camel camera camp canal candle cannon canoe canvas canyon cape captain card cargo carpet carrot cart
castle cat cattle cave cedar ceiling cement cereal chain chair chalk chapel cheese cherry chess chest chicken
chimney chisel church cider cinema circle circus clarinet clay cliff clinic clock cloth cloud clover coach coal
coast coat cobra cocoa coconut coffee coin collar comb comet compass concert copper coral cork corn corner cottage
cotton couch cousin cow crab cradle crane crater crayon cream creek cricket crocus crow crown crystal cube cup curtain
cushion daisy dance dancer deer desert desk dessert diamond dinner doctor dog doll dolphin donkey door dove dragon
drawer dream dress drum duck dust eagle ear earth easel east echo eel egg elbow elephant elm engine envelope
fabric falcon family farm farmer feather fence fern ferry festival fiddle field fig finger fire fish flag flame flask
flower flute fog forest fork fossil fountain fox frame freckle frog frost furnace galaxy gallery
garden garlic gate ghost giant ginger giraffe glacier glass globe glove goat gold goose grain grape grass gravel guitar
gull hail hammer hammock hand harbour harp harvest hat hawk hay hazel heart hedge helmet hen herb heron hill hinge
holiday honey hood horn horse hospital hotel house hunter hurdle ice iceberg inn insect iris iron island ivory ivy
jacket jaguar jam jar jelly jewel jigsaw jug juice jungle kayak kettle key king kite kitten knee knife knot
ladder lake lamb lamp lantern larch lark laundry lawn leaf leather lemon leopard library lily lime linen lion
lizard lobster locket log lotus lunch lynx magnet maple marble market mask meadow medal melon metal meteor milk mill
mint mirror mist mole monkey moon moose moss motor mountain mouse mud muffin museum mushroom music mustard
napkin nectar needle nest net nickel noodle north nose novel nurse oak oar oasis oat ocean octopus office olive
onion opal opera orange orbit orchard orchid organ otter oven owl oyster paddle page paint palace palm pan panda paper
parade parcel park parrot path peach peacock peanut pear pearl pebble pelican pencil penguin pepper piano picnic picture
pig pigeon pillow pilot pine pipe pirate pitcher planet plate plough plum pocket poem pond pony poppy porridge
potato pottery powder prairie prince puddle pumpkin puppet puppy purse puzzle pyramid quail quarry quartz queen quilt
rabbit raccoon radio radish raft rail rain rainbow raisin raven recipe reef ribbon rice river road robin rock
rocket roof rooster root rope rose ruby rudder rug ruler sack saddle sail sailor salad salmon salt sand sandal
saucer sausage scarf school scissors sea seal season seed shadow shark sheep shelf shell shepherd ship shirt shoe shore
shovel shrimp signal silk silver singer sister skate sky sled sleeve slipper smoke snail snake snow soap sock sofa soil
soldier song soup spade sparrow spice spider spinach spoon spring squirrel stable stadium stairs star statue steam steel
stone stool storm stove straw stream street string sugar suitcase summer sun swan sweater swing sword syrup tailor
tambourine tango teacher teapot temple tent theatre thimble thistle thread thunder ticket tide tiger timber toast tomato
torch tortoise towel tower tractor train tray treasure tree trousers trout truck trumpet trunk tulip tunnel
turkey turnip turtle twig uncle valley vase velvet village vine vinegar violet violin volcano vulture waffle
wagon wallet walnut walrus wasp water wave weasel wheat wheel whistle willow wind window wing winter wizard wolf wood
wool worm wreath wren yacht yard yarn zebra zinc
""".split()  # noqa: SIM905  (a list of literals would be ten times as long)

NAMES = """
Ada Adam Agnes Alice Amir Anna Anton Arthur Aya Ben Bella Carl Carla Cecil Chen Clara Daniel Daria David Diana Edgar
Elena Eli Emma Erik Eva Farah Felix Fiona Flora Gina Grace Gustav Hana Hannah Harry Hugo Ida Igor Irene Isaac Ivan Jack
Jane Jonas Julia Kai Karin Kenji Lara Leo Lena Lily Linus Lucas Lucy Luis Maja Marco Maria Max Maya Mia Milan Mina Nadia
Nico Nina Noah Nora Olga Oliver Omar Oscar Otto Paul Paula Peter Petra Priya Rafael Rosa Ruth Sam Sara Simon Sofia
Stella Tara Theo Thomas Tina Tom Uma Vera Victor Wanda Walter Yara Yusuf Zara Zoe
""".split()  # noqa: SIM905  (a list of literals would be ten times as long)

_ONSETS = ("b", "br", "c", "ch", "cl", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pl", "pr",
           "r", "s", "sh", "sk", "sp", "st", "t", "th", "tr", "v", "w", "z")
_VOWELS = ("a", "a", "a", "e", "e", "e", "i", "i", "o", "o", "u", "ai", "ea", "ee", "ie", "oa", "oo", "ou")
_CODAS = ("", "", "", "", "", "l", "n", "m", "r", "s", "t", "d", "k", "ck", "nd", "nt", "st", "rt", "ng", "x", "p")


def built_word(rng: random.Random) -> str:
    """A made-up word of four to ten letters."""
    while True:
        count = 2 if rng.random() < 0.7 else 3
        parts = []
        for index in range(count):
            coda = rng.choice(_CODAS) if index == count - 1 or rng.random() < 0.25 else ""
            parts.append(rng.choice(_ONSETS) + rng.choice(_VOWELS) + coda)
        word = "".join(parts)
        if rng.random() < 0.25:
            word += rng.choice(("y", "er", "ia", "on", "en", "ow", "et", "in"))
        if 4 <= len(word) <= 10:
            return word
